"""Every strategy on every kind of model, through the real engine, on devices that are only simulated."""

import copy
import functools
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.encoders.families import family_of
from mteb_longembed.encoders.strategies import STRATEGIES, get_strategy
from tests import tiny
from tests.encoders.families.test_rotary import GEMMA, GQA, LAYERS, LO, LT

from .simulated import Accelerator, OnDevice, Refused

#: Short and long documents, equal lengths, one that is cut.
TEXTS = [tiny.text(n, seed) for seed, n in enumerate((3, LO - 1, LO, LO + 1, 35, LT, LT + 9, LT))]
#: Model type -> its settings, and whether it can run packed.
MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "bert": ({}, True),
    "roberta": ({}, True),
    "mpnet": ({}, False),
    "modernbert": ({**LAYERS, "local_attention": 12, "cls_token_id": 0, "sep_token_id": 2}, True),
    "jina_embeddings_v3": ({}, True),
    "t5": ({}, False),
    "qwen3": (GQA, True),
    "mistral": ({**GQA, "sliding_window": LO}, True),
    "gemma3_text": (GEMMA, True),
}
#: The largest difference of a number in two unit vectors: the goals of docs/speed.md.
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}

H100 = Accelerator("H100")
H100_FP32 = Accelerator("H100 in fp32", dtype=torch.float32)
T4 = Accelerator("T4", capability=(7, 5), dtype=torch.float16)
APPLE = Accelerator("Apple", "mps", dtype=torch.float32, float64=False)
ROCM = Accelerator("ROCm", capability=(9, 4), hip=True)
#: What the ordinary suite runs: every strategy where a batch runs packed and where there is no float64, and of the
#: other models and devices what passes through code of its own.
USUAL = {
    (H100.name, "modernbert"): [*STRATEGIES],
    (H100.name, "qwen3"): ["gp", "se"],
    (H100.name, "bert"): ["pcw", "rp", "pi", "ntk"],
    (H100.name, "t5"): ["gp", "pi", "se"],
    **{(H100.name, name): ["pi"] for name in ("roberta", "mpnet", "mistral", "gemma3_text")},
    (H100.name, "jina_embeddings_v3"): ["se"],
    (H100_FP32.name, "modernbert"): ["se"],
    (H100_FP32.name, "bert"): ["pi"],
    (T4.name, "modernbert"): ["none", "pcw", "pi", "se"],
    (T4.name, "qwen3"): ["gp", "se"],
    (T4.name, "bert"): ["pi"],
    (T4.name, "t5"): ["se"],
    (T4.name, "gemma3_text"): ["pi"],
    (APPLE.name, "qwen3"): [*STRATEGIES],
    (APPLE.name, "bert"): ["rp", "pi", "ntk"],
    (APPLE.name, "roberta"): ["pi"],
    (APPLE.name, "t5"): ["pi", "se"],
    (ROCM.name, "modernbert"): ["se"],
    (ROCM.name, "bert"): ["pi"],
}


@functools.cache
def base(name: str) -> Any:
    return tiny.sentence_transformer(name, Path(tempfile.mkdtemp()), **MODELS[name][0], name=f"tiny/{name}")


def fitting(name: str) -> list[str]:
    kind = {"jina_embeddings_v3": "modernbert", "gemma3_text": "qwen3"}.get(name, name)
    family = family_of(base(kind)[0].config)
    return [key for key, strategy in STRATEGIES.items() if family.fits(strategy)]


def extended(name: str, key: str) -> Any:
    return longembed.extend(copy.deepcopy(base(name)), key, **({} if key == "none" else {"target_len": LT}))


def encoded(device: Accelerator, name: str, key: str) -> tuple[np.ndarray, Accelerator]:
    """The embeddings from a device, and what it saw after the first call, which measures memory."""
    seen = device.fresh()
    model = extended(name, key)
    with seen.present():
        seen.moved(model).encode(TEXTS[:1])
        seen.waits.clear()
        seen.calls.clear()
        return model.encode(TEXTS), seen


def check(device: Accelerator, name: str, key: str) -> None:
    got, seen = encoded(device, name, key)
    host = extended(name, key)
    host[0].model.to(device.dtype)
    gap = float(np.abs(got - host.encode(TEXTS)).max())
    assert gap < LIMITS[device.dtype], f"{gap:.1e} off"
    packed = MODELS[name][1] and device.kind == "cuda" and device.dtype == torch.bfloat16
    assert (seen.calls["_varlen_attn"] > 0) == packed
    if packed:
        assert not seen.waits, "the host waited for a packed batch"
    elif device.kind == "cuda":
        # transformers looks once for padding; two batches, of short and of long documents
        assert len(seen.waits) <= 2, seen.waits


def cells() -> Iterator[Any]:
    """Every device x model x strategy."""
    for device, name in itertools.product((H100, H100_FP32, T4, APPLE, ROCM), MODELS):
        for key in fitting(name):
            marks = () if key in USUAL.get((device.name, name), ()) else pytest.mark.long
            yield pytest.param(device, name, key, id=f"{device.name}-{name}-{key}", marks=marks)


@pytest.mark.parametrize(("device", "name", "key"), cells())
def test_every_strategy_on_every_model_and_device(device, name, key):
    check(device, name, key)


@pytest.mark.parametrize("key", ["rp", "pi", "ntk"])
def test_a_table_grows_on_the_device_where_the_base_was_loaded(key):
    host, strategy = copy.deepcopy(base("bert")), get_strategy(key)(trained_len=LO, target_len=LT)
    with H100.fresh(dtype=torch.float32).present() as seen:
        on_device = seen.moved(copy.deepcopy(host))[0].model
        family_of(on_device.config)(on_device, strategy)
        table = on_device.embeddings.position_embeddings.weight.detach()
        assert isinstance(table, OnDevice)
        rows = table.cpu()
    family_of(host[0].config)(host[0].model, strategy)
    assert torch.equal(rows, host[0].model.embeddings.position_embeddings.weight)


@pytest.mark.parametrize(("key", "vectors"), [("pcw", "window"), ("pcw", 5), ("pi", 5)])
def test_several_vectors_wait_at_most_once_a_batch(key, vectors):
    made = lambda: longembed.extend(copy.deepcopy(base("bert")), key, LT, vectors=vectors)  # noqa: E731
    seen, model, host = H100.fresh(), made(), made()
    host[0].model.to(H100.dtype)
    with seen.present():
        seen.moved(model).encode_document(TEXTS[:1])
        seen.waits.clear()
        got = model.encode_document(TEXTS)
    assert len(seen.waits) <= 2, seen.waits
    for a, b in zip(got, host.encode_document(TEXTS), strict=True):
        assert float((a.host - b).abs().max()) < LIMITS[H100.dtype]


def test_a_simulated_device_refuses_what_a_real_one_refuses():
    with H100.fresh().present() as seen:
        x = OnDevice(torch.ones(4, 8))
        with pytest.raises(Refused, match=r"tensors on cuda:0 and on the host"):
            x + torch.ones(4, 8)
        with pytest.raises(TypeError, match=r"Tensor\.cpu"):
            x.numpy()
        assert not seen.waits and float(x.sum()) == 32 and len(seen.waits) == 1
    with APPLE.present(), pytest.raises(Refused, match="float64"):
        OnDevice(torch.ones(3)).double()
