"""Every strategy on rotary models equals a slow oracle: one document, every pair of tokens turned by hand."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import flash_attention_mask
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mteb_longembed.encoders.modules import LongTransformer, WindowPooling
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError, ModelError
from tests import tiny
from tests.encoders.attention import oracles
from tests.limits import same_vectors

LO, LT = tiny.TRAINED, 4 * tiny.TRAINED
S = 4
LENGTHS = (3, LO - 1, LO, LO + 1, 2 * LO + 3, LT, LT + 1)
TEXTS = [tiny.text(n) for n in LENGTHS]

GQA = {"num_key_value_heads": 2, "head_dim": 8}
LAYERS = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 6}
GEMMA = {**GQA, **LAYERS, "query_pre_attn_scalar": 8}
#: test id -> model type, configuration, pooling
MODELS: dict[str, tuple[str, dict, str]] = {
    "mistral": ("mistral", {**GQA, "sliding_window": LO}, "lasttoken"),
    "llama": (
        "llama",
        {**GQA, "rope_parameters": {"rope_theta": 500.0, "rope_type": "linear", "factor": 2.0}},
        "mean",
    ),
    "qwen2": ("qwen2", GQA, "lasttoken"),
    "qwen3": ("qwen3", GQA, "lasttoken"),
    "gemma3": ("gemma3_text", GEMMA, "mean"),
    "embeddinggemma": ("gemma3_text", {**GEMMA, "use_bidirectional_attention": True}, "mean"),
    "nomic_bert": ("nomic_bert", {}, "mean"),
    "modernbert": ("modernbert", {**LAYERS, "local_attention": 12}, "cls"),
    "gte": ("gte", {}, "cls"),
    "eurobert": ("eurobert", GQA, "mean"),
    "jina-v3": ("jina_embeddings_v3", {}, "mean"),
}
STRATEGY_PARAMETERS: dict[str, dict] = {
    "none": {}, "gp": {}, "rp": {}, "pi": {}, "ntk": {}, "se": {}, "rerope": {}, "dca": {},
    "yarn": {"beta_fast": 4.0}, "dynamic": {}, "resonance": {"beta_fast": 4.0},
}  # fmt: skip


# ---- the oracle: definitions, written once more and slowly ---------------------------------------------------


def relative(key: str, i: int, j: int, n: int) -> float:
    """The relative position at which token i of a document of n tokens sees token j."""
    if n <= LO or key in ("none", "ntk", "yarn", "dynamic", "resonance"):
        return i - j
    if key == "gp":
        g = math.ceil(n / LO)
        return i // g - j // g
    if key == "rp":
        return i % LO - j % LO
    if key == "pi":
        return (i - j) / S
    within_attention = {
        "se": oracles.self_extend(S + 1, LO // S),
        "rerope": oracles.rerope(LO // 2),
        "dca": oracles.dual_chunk(3 * LO // 4, LO - 1),
    }
    return within_attention[key](i, j)


def frequencies(key: str, inv_freq: torch.Tensor, theta: float, n: int) -> torch.Tensor:
    """Inverse frequencies in float64 for a document of n tokens."""
    d = 2 * len(inv_freq)
    two_i = torch.arange(0, d, 2, dtype=torch.float64)
    if key == "ntk":
        return inv_freq * (theta * (S + max(1, S / 4))) ** (-two_i / d) / theta ** (-two_i / d)
    if n <= LO:
        return inv_freq
    if key == "dynamic":
        return inv_freq * (theta * (n / LO) ** (d / (d - 2))) ** (-two_i / d) / theta ** (-two_i / d)
    if key in ("yarn", "resonance"):

        def index(turns: float) -> float:
            return d * math.log(LO / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low, high = max(math.floor(index(4.0)), 0), min(math.ceil(index(1.0)), d - 1)
        ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        out = inv_freq / S * ramp + inv_freq * (1 - ramp)
        return out if key == "yarn" else 2 * math.pi / (2 * math.pi / out).round()
    return inv_freq


def through(model: SentenceTransformer, text: str, limit: int = LT) -> np.ndarray:
    """One document through the modules of a model, whatever length the model itself would cut it to."""
    ids = model.tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
    features = {name: ids[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        for module in model:
            features = module(features)
    return features["sentence_embedding"][0].numpy()


class Oracle:
    """Runs one document at a time through the base with a dense float64 attention over explicit positions."""

    def __init__(self, base: SentenceTransformer, key: str, logn: bool = True) -> None:
        self.model = copy.deepcopy(base)
        self.key, self.logn = key, logn
        inner = self.model[0].model
        rotary = inner.rotary_emb
        nested = hasattr(rotary, "layer_types")
        self.inv_freq = {
            kind: getattr(rotary, f"{kind}_inv_freq" if nested else "inv_freq").double()
            for kind in ("full_attention", "sliding_attention")
        }
        rope = inner.config.rope_parameters
        self.theta = rope["full_attention"]["rope_theta"] if nested else rope["rope_theta"]

        def no_rotation(x, position_ids, layer_type=None):
            cos = torch.ones(1, x.shape[1], 8)
            return cos, torch.zeros_like(cos)

        rotary.forward = no_rotation
        AttentionInterface.register("oracle", self.attend)
        AttentionMaskInterface.register("oracle", flash_attention_mask)
        inner.set_attn_implementation("oracle")

    def attend(self, module, query, key, value, attention_mask, scaling, sliding_window=None, **kwargs):
        assert attention_mask is None
        q, k, v = (x.double() for x in (query, key, value))
        n = q.shape[2]
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        if sliding_window is not None and sliding_window >= LO and self.key != "none":
            sliding_window = None
        full = sliding_window is None
        kind = "full_attention" if full else "sliding_attention"
        inv_freq = self.inv_freq[kind]
        if full:
            inv_freq = frequencies(self.key, inv_freq, self.theta, n)
        at = torch.tensor(
            [[relative(self.key if full else "none", i, j, n) for j in range(n)] for i in range(n)]
        )
        scores = (oracles.turned(q[:, :, :, None], at.double(), inv_freq) * k[:, :, None]).sum(-1) * scaling
        seen = (
            torch.arange(1, n + 1.0, dtype=torch.float64) if module.is_causal else torch.full((n,), float(n))
        )
        if self.logn and full and n > LO:
            scores = scores * (seen.log() / math.log(LO)).clamp(min=1)[:, None]
        behind = torch.arange(n)[:, None] - torch.arange(n)
        hidden = behind < 0 if module.is_causal else torch.zeros(n, n, dtype=torch.bool)
        if sliding_window is not None:
            hidden = hidden | (behind.abs() >= sliding_window)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ v).to(query.dtype).transpose(1, 2), None

    def encode(self, text: str) -> np.ndarray:
        return through(self.model, text, LO if self.key == "none" and not self.logn else LT)


def extended(base: SentenceTransformer, key: str, target: int = LT, **params) -> SentenceTransformer:
    modules = list(copy.deepcopy(base))
    strategy = STRATEGIES[key](trained_len=LO, target_len=target, **params)
    modules[0] = LongTransformer.from_transformer(modules[0], strategy)
    if key == "pcw":
        modules[1] = WindowPooling.from_pooling(modules[1])
    return SentenceTransformer(modules=modules, device="cpu")


_BASES: dict[str, SentenceTransformer] = {}


@pytest.fixture(params=sorted(MODELS))
def base(request, tmp_path_factory) -> SentenceTransformer:
    return make(request.param, tmp_path_factory)


@pytest.fixture
def make_base(tmp_path_factory) -> Callable[[str], SentenceTransformer]:
    return lambda name: make(name, tmp_path_factory)


def make(name: str, tmp_path_factory) -> SentenceTransformer:
    if name not in _BASES:
        kind, config, pooling = MODELS[name]
        if kind not in CONFIG_MAPPING:
            pytest.skip(f"this transformers has no {kind}: gte came with 5.18")
        _BASES[name] = tiny.sentence_transformer(kind, tmp_path_factory.mktemp(name), pooling, **config)
    return _BASES[name]


@pytest.mark.parametrize("key", sorted(STRATEGY_PARAMETERS))
def test_equals_the_oracle_whatever_else_is_in_the_batch(base, key):
    model = extended(base, key, logn=True, **STRATEGY_PARAMETERS[key])
    oracle = Oracle(base, key)
    together = model.encode(TEXTS)
    for text, got in zip(TEXTS, together, strict=True):
        assert np.abs(got - oracle.encode(text)).max() < 1e-5


def gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("name", ["jina-v3", "qwen3"])
def test_the_oracle_can_tell_the_strategies_apart(make_base, name):
    base = make_base(name)
    vectors = {key: Oracle(base, key).encode(TEXTS[-2]) for key in STRATEGY_PARAMETERS}
    keys = sorted(vectors)
    gaps = {(a, b): gap(vectors[a], vectors[b]) for a in keys for b in keys if a < b}
    # wavelengths rounded to whole tokens hardly differ in so short a document
    gaps.pop(("resonance", "yarn"))
    assert min(gaps.values()) > 1e-3, min(gaps, key=gaps.get)


@pytest.mark.parametrize("key", [k for k in STRATEGY_PARAMETERS if k not in ("none", "ntk")] + ["pcw"])
def test_short_inputs_are_untouched(make_base, key):
    base = make_base("qwen3")
    got = extended(base, key, **STRATEGY_PARAMETERS.get(key, {})).encode(TEXTS[:3])
    same_vectors(got, base.encode(TEXTS[:3]))


@pytest.mark.parametrize("name", ["mistral", "modernbert", "jina-v3", "gemma3"])
def test_none_at_the_trained_length_is_the_base(make_base, name):
    base = make_base(name)
    same_vectors(extended(base, "none", LO).encode(TEXTS[:3]), base.encode(TEXTS[:3]))


def windows(base: SentenceTransformer, text: str) -> np.ndarray:
    """Each window through the base alone, pooled, then averaged."""
    ids = base.tokenizer(text, truncation=True, max_length=LT)["input_ids"]
    content, room = ids[1:-1], LO - 2
    pooled = []
    for start in range(0, len(content), room):
        chunk = content[min(start, max(len(content) - room, 0)) :][:room]
        window = torch.tensor([[ids[0], *chunk, ids[-1]]])
        with torch.no_grad():
            features = base[0]({"input_ids": window, "attention_mask": torch.ones_like(window)})
            pooled.append(base[1](features)["sentence_embedding"])
    return torch.nn.functional.normalize(torch.stack(pooled).mean(0), dim=1)[0].numpy()


@pytest.mark.parametrize("name", ["mistral", "modernbert"])
def test_windows_are_pooled_one_by_one_and_averaged(make_base, name):
    base = make_base(name)
    assert gap(extended(base, "pcw").encode(TEXTS[4]), windows(base, TEXTS[4])) < 1e-5


@pytest.mark.parametrize("name", ["mistral", "jina-v3", "modernbert", "embeddinggemma"])
@pytest.mark.parametrize("key", ["se", "dca", "pi"])
def test_half_precision_stays_within_two_percent(make_base, name, key):
    base = make_base(name)
    exact = extended(base, key).encode(TEXTS)
    half = extended(copy.deepcopy(base).bfloat16(), key).encode(TEXTS)
    # cosine distance of normalised vectors; bf16 keeps 8 bits, so weights alone are off by 0.4 %
    assert (1 - (exact * half).sum(1)).max() < 0.02


def test_full_layers_without_positions_leave_windows_alone(tmp_path):
    # Cohere 2 turns in its sliding layers only
    base = tiny.sentence_transformer("cohere2", tmp_path, **{**GQA, **LAYERS})
    with pytest.raises(ModelError, match=r"so se cannot change it; use pcw\."):
        extended(base, "se")


@pytest.mark.parametrize("key", ["se", "pi", "ntk"])
def test_sliding_layers_with_a_rope_base_of_their_own_must_see_fewer_tokens_than_training(key, tmp_path):
    base = tiny.sentence_transformer("gemma3_text", tmp_path, **{**GEMMA, "sliding_window": LO})
    with pytest.raises(
        IncompatibleError,
        match=r"sliding layers must see fewer tokens than the trained length of 16, got 16; use pcw",
    ):
        extended(base, key)
    same_vectors(extended(base, "none", LO).encode(TEXTS[:3]), base.encode(TEXTS[:3]))
