"""Nothing of a pass stays on the host, and nothing reads from the device: on a device that has no numbers.

What runs only there returns the host's numbers: `test_self_extend` has the path without a kernel.
"""

import copy
import functools
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import mteb_longembed as longembed
from mteb_longembed.encoders import attention
from mteb_longembed.encoders.positions import install_positions
from mteb_longembed.encoders.strategies import STRATEGIES
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LO, LT

aten = torch.ops.aten
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
#: What passes through code of its own.
CELLS = [
    *(("modernbert", key) for key in STRATEGIES),
    *(("qwen3", key) for key in STRATEGIES),
    *(("bert", key) for key in ("pcw", "pi", "rp", "ntk")),
    ("roberta", "pi"),
    ("mpnet", "pi"),
    ("jina_embeddings_v3", "ntk"),
    ("gemma3_text", "pi"),
    ("mistral", "se"),
]  # fmt: skip


class Refused(RuntimeError):
    """What a real device would have raised."""


class OnMeta(TorchDispatchMode):
    """torch's meta device as an accelerator: copies from it are zeros, and it has no float64, as Apple's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        with self:  # in inference mode, operators arrive that consist of others
            parts = func.decompose(*args, **given)
        if parts is not NotImplemented:
            return parts
        tensors = [x for x in tree_leaves((args, given)) if isinstance(x, Tensor)]
        if func is aten._to_copy.default and args[0].is_meta and given.get("device") == torch.device("cpu"):
            return torch.zeros(args[0].shape, dtype=given.get("dtype") or args[0].dtype)
        if func is aten._local_scalar_dense.default and args[0].is_meta:
            return 1  # as if a document were long
        indexes = func in (aten.index.Tensor, aten.index_put_.default, aten.copy_.default)
        if not indexes and len({x.device.type for x in tensors if x.dim()}) > 1:
            raise Refused(f"{func.name()}: tensors on the device and on the host")
        out = func(*args, **given)
        if any(isinstance(x, Tensor) and x.is_meta and x.dtype == torch.float64 for x in tree_leaves(out)):
            raise Refused(f"{func.name()}: no float64 here")
        return out


@functools.cache
def base(name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return tiny.sentence_transformer(name, Path(folder), **MODELS[name], name=f"tiny/{name}")


def on_meta(name: str, key: str, **settings: Any) -> Any:
    """An extended model on the device, in half precision. Modules after the first stay in fp32."""
    target = {} if key == "none" else {"target_len": LT}
    model = longembed.extend(copy.deepcopy(base(name)), key, **target, **settings)
    model[0].model.bfloat16()
    return model.to("meta")


@pytest.mark.parametrize(("name", "key"), CELLS)
def test_every_strategy_runs_on_a_device_alone(name: str, key: str) -> None:
    with OnMeta():
        assert on_meta(name, key).encode(TEXTS).shape == (len(TEXTS), 32)


@pytest.mark.parametrize(("key", "vectors"), [("pcw", "window"), ("pi", 5)])
def test_several_vectors_are_grouped_on_the_device(key: str, vectors: Any) -> None:
    with OnMeta():
        assert len(on_meta("bert", key, vectors=vectors).encode_document(TEXTS)) == len(TEXTS)


@pytest.mark.parametrize("name", ["qwen3", "jina_embeddings_v3"])
def test_documents_of_several_lengths_share_one_call_in_each_layer(name: str, monkeypatch) -> None:
    attend = Mock(side_effect=attention._torchs)
    monkeypatch.setattr(attention, "_torchs", attend)
    with OnMeta():
        on_meta(name, "pi").encode([tiny.text(n) for n in (LT - 2, LT - 1, LT)])
    assert attend.call_count == 2  # layers


@pytest.mark.parametrize("key", ["rp", "pi", "ntk"])
def test_a_table_grows_on_the_device_where_the_base_was_loaded(key: str) -> None:
    model = copy.deepcopy(base("bert"))[0].model.to("meta")
    with OnMeta():
        install_positions(model, STRATEGIES[key](trained_len=LO, target_len=LT))
        assert model.embeddings.position_embeddings.long.is_meta


def test_the_device_refuses_what_a_real_one_refuses() -> None:
    x = torch.ones(4, 8, device="meta")
    with OnMeta():
        with pytest.raises(Refused, match="tensors on the device and on the host"):
            x + torch.ones(4, 8)
        with pytest.raises(Refused, match="float64"):
            x.double()
        with pytest.raises(TypeError, match=r"Tensor\.cpu|meta"):
            x.numpy()
