"""Every strategy on every kind of model, through the real engine, on devices that are only simulated."""

import copy
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.encoders.strategies import STRATEGIES, get_strategy
from mteb_longembed.encoders.swap import swap
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LO, LT

from .simulated import Accelerator, OnDevice, Refused

#: Short and long documents, equal lengths, one that is cut.
TEXTS = [tiny.text(n, seed) for seed, n in enumerate((3, LO - 1, LO, LO + 1, 35, LT, LT + 9, LT))]
#: Model type -> its settings.
MODELS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "mpnet": {},
    "modernbert": {**LAYERS, "local_attention": 12, "cls_token_id": 0, "sep_token_id": 2},
    "jina_embeddings_v3": {},
    "qwen3": GQA,
    "mistral": {**GQA, "sliding_window": LO},
    "gemma3_text": GEMMA,
}
#: The largest difference of a number in two unit vectors: the goals of docs/speed.md.
LIMITS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}

H100 = Accelerator("H100")
H100_FP32 = Accelerator("H100 in fp32", dtype=torch.float32)
T4 = Accelerator("T4", dtype=torch.float16)
APPLE = Accelerator("Apple", "mps", dtype=torch.float32, float64=False)
#: What passes through code of its own.
CELLS = [
    *((H100, "modernbert", key) for key in STRATEGIES),
    *((APPLE, "qwen3", key) for key in STRATEGIES),
    *((H100, "qwen3", key) for key in ("gp", "se")),
    *((H100, "bert", key) for key in ("pcw", "pi")),
    *((APPLE, "bert", key) for key in ("rp", "ntk")),
    (H100, "mpnet", "pi"),
    (H100, "jina_embeddings_v3", "ntk"),
    (H100, "gemma3_text", "pi"),
    (H100_FP32, "modernbert", "se"),
    (T4, "qwen3", "se"),
    (APPLE, "roberta", "pi"),
    (APPLE, "mistral", "se"),
]


@functools.cache
def base(name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return tiny.sentence_transformer(name, Path(folder), **MODELS[name], name=f"tiny/{name}")


def extended(name: str, key: str) -> Any:
    return longembed.extend(copy.deepcopy(base(name)), key, **({} if key == "none" else {"target_len": LT}))


@pytest.mark.parametrize(("device", "name", "key"), CELLS)
def test_every_strategy_on_every_model_and_device(device, name, key):
    model, host = extended(name, key), extended(name, key)
    host[0].model.to(device.dtype)
    with device.fresh().present() as seen:
        got = seen.moved(model).encode(TEXTS)
    gap = float(np.abs(got - host.encode(TEXTS)).max())
    assert gap < LIMITS[device.dtype], f"{gap:.1e} off"


@pytest.mark.parametrize("name", ["qwen3", "jina_embeddings_v3"])
def test_documents_of_several_lengths_share_one_call_in_each_layer(name):
    texts = [tiny.text(n) for n in (LT - 2, LT - 1, LT)]
    model = extended(name, "pi")
    with H100.fresh().present() as seen:
        seen.moved(model).encode(texts)
    assert seen.attention_calls == 2  # layers


@pytest.mark.parametrize("key", ["rp", "pi", "ntk"])
def test_a_table_grows_on_the_device_where_the_base_was_loaded(key):
    host, strategy = copy.deepcopy(base("bert")), get_strategy(key)(trained_len=LO, target_len=LT)
    with H100.fresh(dtype=torch.float32).present() as seen:
        on_device = seen.moved(copy.deepcopy(host))[0].model
        swap(on_device, strategy)
        table = on_device.embeddings.position_embeddings.long.detach()
        assert isinstance(table, OnDevice)
        rows = table.cpu()
    swap(host[0].model, strategy)
    assert torch.equal(rows, host[0].model.embeddings.position_embeddings.long)


@pytest.mark.parametrize(("key", "vectors"), [("pcw", "window"), ("pi", 5)])
def test_several_vectors_are_those_of_the_host(key, vectors):
    made = lambda: longembed.extend(copy.deepcopy(base("bert")), key, LT, vectors=vectors)  # noqa: E731
    seen, model, host = H100.fresh(), made(), made()
    host[0].model.to(H100.dtype)
    with seen.present():
        got = seen.moved(model).encode_document(TEXTS)
    for a, b in zip(got, host.encode_document(TEXTS), strict=True):
        assert float((a.host - b).abs().max()) < LIMITS[H100.dtype]


def test_a_simulated_device_refuses_what_a_real_one_refuses():
    with H100.fresh().present():
        x = OnDevice(torch.ones(4, 8))
        with pytest.raises(Refused, match=r"tensors on cuda:0 and on the host"):
            x + torch.ones(4, 8)
        with pytest.raises(TypeError, match=r"Tensor\.cpu"):
            x.numpy()
    with APPLE.present(), pytest.raises(Refused, match="float64"):
        OnDevice(torch.ones(3)).double()
