"""Export x every kind of base x every strategy: the same embeddings, or refused, or what is lost is named.

Stock code reads each checkpoint where our package cannot be imported.

The ordinary suite runs the strategies that claim to export, `pytest -m long` all.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import mteb_longembed
from mteb_longembed.encoders.export import export
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LO, LT, SCALINGS
from tests.encoders.without_us import without_us

SHORT = [tiny.text(n) for n in (3, LO - 1, LO)]
LONG = [tiny.text(n) for n in (LO + 1, 2 * LO + 3, LT)]
GEMMA2 = {**GQA, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 8}


def rope(rope_type: str, **parameters: object) -> dict:
    return {"rope_type": rope_type, "rope_theta": 500.0, **parameters}


HALF = {"partial_rotary_factor": 0.5}
DYNAMIC = rope("dynamic", factor=2.0)
BY_LAYER = {"full_attention": rope("linear", factor=2.0), "sliding_attention": rope("default")}
WINDOWS = {"use_sliding_window": True, "sliding_window": LO}
#: test id -> model type, configuration: every way in which transformers scales or lays out rotary positions,
#: and one model of each other family
BASES: dict[str, tuple[str, dict]] = {
    "default": ("llama", {**GQA, "rope_parameters": rope("default")}),
    **{kind: ("llama", {**GQA, "rope_parameters": rope(kind, **more)}) for kind, more in SCALINGS.items()},
    "proportional": ("llama", {**GQA, "rope_parameters": rope("proportional", factor=2.0, **HALF)}),
    "partial": ("stablelm", {**GQA, "rope_parameters": rope("default", **HALF)}),
    "partial-linear": ("phi", {"rope_parameters": rope("linear", factor=2.0, **HALF)}),
    "partial-interleaved": ("glm", {**GQA, "rope_parameters": rope("default", **HALF)}),
    "per-layer": ("gemma3_text", GEMMA),
    "per-layer-linear": ("gemma3_text", {**GEMMA, "rope_parameters": BY_LAYER}),
    "modernbert": ("modernbert", {**LAYERS, "local_attention": 12}),
    "window-at-lo": ("mistral", {**GQA, "sliding_window": LO}),
    "windows-by-layer": ("qwen2", {**GQA, **WINDOWS, "max_window_layers": 1}),
    "soft-capped": ("gemma2", {**GEMMA2, "layer_types": ["full_attention"] * 2}),
    "soft-capped-window": ("gemma2", {**GEMMA2, **LAYERS, "sliding_window": LO + 4}),
    "bidirectional": ("gemma3_text", {**GEMMA, "use_bidirectional_attention": True}),
    "dynamic-with-room": ("llama", {**GQA, "max_position_embeddings": LT, "rope_parameters": DYNAMIC}),
    "absolute": ("bert", {}),
    "absolute-from-padding": ("roberta", {}),
    "unknown": ("deberta-v2", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
}  # fmt: skip

#: strategy -> the parameters it is exported with; `logn` is off, where "-" it has its default
VARIANTS: list[tuple[str, dict]] = [
    *((key, {}) for key in STRATEGIES),
    ("gp", {"factor": "target"}), ("pi", {"short": "scale"}), ("ntk", {"short": "keep"}),
    ("ntk", {"factor": 3.0}), ("yarn", {"short": "scale", "beta_fast": 4.0}),
    ("yarn", {"factor": 3.0, "beta_fast": 4.0}), ("pi", {"logn": True}), ("yarn", {"logn": True}),
]  # fmt: skip

_BASES: dict[str, SentenceTransformer] = {}


def base_of(name: str, tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    if name not in _BASES:
        kind, config = BASES[name]
        if kind not in CONFIG_MAPPING:
            pytest.skip(f"this transformers has no {kind}")
        folder = tmp_path_factory.mktemp(name)
        _BASES[name] = tiny.sentence_transformer(kind, folder, name=f"local/{name}", **config)
    return _BASES[name]


def cells() -> Iterator[Any]:
    """Every base x every variant; `long` where the suite has another cell of the same kind."""
    for name in sorted(BASES):
        for key, params in VARIANTS:
            usual = (key in ("pi", "ntk") and not params) or (key == "yarn" and "short" in params)
            # what has no rule of its own for short inputs
            usual |= name == "absolute" and (key == "rp" or params.get("factor") == "target")
            usual |= name == "linear" and key == "pi" and params.get("short") == "scale"
            usual |= name == "window-at-lo" and key == "none"
            label = " ".join([name, key, *map(str, params.values())])
            yield pytest.param(name, key, params, id=label, marks=() if usual else pytest.mark.long)


@pytest.mark.parametrize(("name", "key", "params"), cells())
def test_export_equals_or_refuses_or_names_what_is_lost(name, key, params, tmp_path_factory, tmp_path):
    base = base_of(name, tmp_path_factory)
    params = {"logn": False, **params}
    absolute = hasattr(getattr(base[0].model, "embeddings", None), "position_embeddings")
    target = LO if key == "none" and absolute else LT
    try:
        ours = mteb_longembed.extend(base, key, target, LO, **params)
        lost = export(ours, tmp_path / "plain")
    except IncompatibleError:
        assert not (tmp_path / "plain").exists()
        return
    short_lost = any("inputs of at most" in sentence for sentence in lost)
    logn_lost = any("attention scaling" in sentence for sentence in lost)
    batch_lost = any("by its longest input" in sentence for sentence in lost)
    if logn_lost:
        ours = mteb_longembed.extend(base, key, target, LO, **{**params, "logn": False})
    texts = (LONG if short_lost else SHORT + LONG) if target == LT else SHORT
    with without_us():
        stock = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
        theirs = np.stack([stock.encode(text) for text in texts]) if batch_lost else stock.encode(texts)
        again = stock.encode(texts[::-1])[::-1]
    gap = float(np.abs(theirs - ours.encode(texts)).max())
    assert gap < 1e-5, f"{gap:.1e} off, lost: {lost}"
    if not batch_lost:
        # nothing of the checkpoint may depend on what it encoded before
        assert np.abs(again - theirs).max() < 1e-5
