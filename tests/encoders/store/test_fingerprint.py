"""Whatever decides about an embedding is part of its key, and nothing else is."""

from __future__ import annotations

import copy
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

import mteb_longembed as longembed
from mteb_longembed.encoders.store.checksum import checksum, sums
from mteb_longembed.encoders.store.fingerprint import Fingerprint, fingerprint
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.encoders.strategies import STRATEGIES
from tests import tiny

CPU = torch.device("cpu")
SHORT, LONG = np.arange(5, 15, dtype=np.int32), np.arange(5, 55, dtype=np.int32)
SIZES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "mpnet": {},
    "distilbert": {},
    "mistral": {"num_key_value_heads": 2, "head_dim": 8},
    "modernbert": {"local_attention": 8, "cls_token_id": 0, "sep_token_id": 2},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "num_layers": 2, "n_positions": 16},
    "roformer": {"embedding_size": 32},
}
Keys = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], SentenceTransformer]:
    made: dict[str, SentenceTransformer] = {}

    def base(kind: str) -> SentenceTransformer:
        if kind not in made:
            folder = tmp_path_factory.mktemp(kind)
            made[kind] = tiny.sentence_transformer(kind, folder, dense=True, **SIZES[kind])
            made[kind].model_card_data.model_name = f"tiny/{kind}"
        return made[kind]

    return base


def extended(base: SentenceTransformer, strategy: str = "pi", **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return longembed.extend(base, strategy, trained_len=16, **kwargs).eval()


def keys(model: Any, prompt: str | None = None, **kwargs: Any) -> Keys:
    """The keys of a short and of a long document."""
    short, long = Fingerprint(model, CPU, **kwargs).keys([SHORT, LONG], prompt)
    return short, long


def fits(base: SentenceTransformer, strategy: str) -> bool:
    from mteb_longembed.encoders.families import family_of

    return family_of(base[0].config).fits(STRATEGIES[strategy])


# ---- weights, modules, settings ---------------------------------------------------------------------------


def tensors_of(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Every parameter, buffer and plain tensor attribute of a model."""
    for name, module in model.named_modules():
        for key, value in {**vars(module), **module._parameters, **module._buffers}.items():
            if isinstance(value, Tensor):
                yield f"{name}.{key}", value


def change_a_bit(tensor: Tensor, at: int) -> None:
    flat = tensor.detach().reshape(-1)
    assert flat.data_ptr() == tensor.data_ptr()
    flat.view(torch.uint8)[at * tensor.element_size()] ^= 1  # past every version counter


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        ("bert", "pi"),
        ("roberta", "gp"),
        ("mistral", "se"),
        ("modernbert", "pi"),
        ("t5", "pi"),
        ("roformer", "ntk"),
    ],
)
def test_one_bit_of_any_tensor_is_another_key(
    bases: Callable[[str], SentenceTransformer], kind: str, strategy: str
) -> None:
    model = extended(bases(kind), strategy)
    before = keys(model)
    tried = 0
    for name, tensor in tensors_of(model):
        for at in {0, tensor.numel() // 2, tensor.numel() - 1}:
            change_a_bit(tensor, at)
            after = keys(model)
            change_a_bit(tensor, at)
            assert after[1] != before[1], (name, at)
            # rows that an extension added are read by long documents only
            if not name.endswith(("position_embeddings.weight", "position_ids", "token_type_ids")):
                assert after[0] != before[0], (name, at)
            tried += 1
    assert keys(model) == before
    assert tried > 40


def test_a_trained_row_of_the_table_is_another_key_for_short_documents_too(
    bases: Callable[[str], SentenceTransformer],
) -> None:
    for strategy in ("none", "pcw", "gp", "rp", "pi", "ntk"):
        model = extended(bases("roberta"), strategy)
        before = keys(model)
        table = model[0].model.embeddings.position_embeddings.weight
        change_a_bit(table[model[0].family.first_row], 3)
        after = keys(model)
        assert after[0] != before[0], strategy
        assert after[1] != before[1], strategy


def simple_attributes(model: Any) -> Iterator[tuple[nn.Module, str, object]]:
    """Every number, switch and word that a module keeps, with another value for it."""
    for module in (module for child in model for module in child.modules()):
        for name, value in vars(module).items():
            if name in vars(nn.Module()) or name.startswith("__"):
                continue
            if isinstance(value, bool):
                yield module, name, not value
            elif isinstance(value, (int, float)):
                yield module, name, value * 2 + 1
            elif isinstance(value, str):
                yield module, name, value + "x"


@pytest.mark.parametrize(("kind", "strategy"), [("bert", "pi"), ("mistral", "pi"), ("t5", "gp")])
def test_any_setting_of_any_module_is_another_key(
    bases: Callable[[str], SentenceTransformer], kind: str, strategy: str
) -> None:
    without = {
        "max_seq_length",
        "max_seq_len_cached",
        "saved_in",
        "origin",
        "gradient_checkpointing",
        "_is_hf_initialized",
        "name_or_path",
        "warnings_issued",
    }
    model = extended(bases(kind), strategy)
    before = keys(model)
    tried = 0
    for module, name, other in simple_attributes(model):
        value = getattr(module, name)
        vars(module)[name] = other
        after = keys(model)
        vars(module)[name] = value
        where = (type(module).__name__, name)
        assert (after[1] != before[1]) == (name not in without), where
        tried += 1
    assert keys(model) == before
    assert tried > 40


def test_any_entry_of_the_configuration_is_another_key(bases: Callable[[str], SentenceTransformer]) -> None:
    model = extended(bases("bert"))
    before, config = keys(model), model[0].model.config
    tried = 0
    for name, value in config.to_dict().items():
        if not isinstance(value, (bool, int, float)) or name in ("torch_dtype",):
            continue
        try:
            setattr(config, name, not value if isinstance(value, bool) else value * 2 + 1)
        except Exception:  # transformers checks some
            continue
        if config.to_dict()[name] != value:
            assert keys(model)[1] != before[1], name
            tried += 1
        setattr(config, name, value)
    assert keys(model) == before
    assert tried > 10


def test_what_a_layer_norm_and_a_frequency_are_in_memory_counts(
    bases: Callable[[str], SentenceTransformer], tmp_path: Path
) -> None:
    """The four changes that an earlier store did not see, end to end."""
    changes: list[Callable[[Any], object]] = [
        lambda model: model[0].model.embed_tokens.weight.data[100:200].mul_(2),
        lambda model: model[0].model.rotary_emb.inv_freq.mul_(0.5),
        lambda model: setattr(model[0].model.norm, "variance_epsilon", 1.0),
        lambda model: model[0].model.rotary_emb.base.inv_freq.mul_(0.5),
    ]
    texts = [tiny.text(12), tiny.text(40)]
    for change in changes:
        model = extended(bases("mistral"), "pi")
        model.store = EmbeddingStore(tmp_path)
        model.encode(texts)
        change(model)
        found = model.encode(texts)
        fresh = copy.deepcopy(model)
        fresh.store = None
        assert np.array_equal(found, fresh.encode(texts))


# ---- how it is run ----------------------------------------------------------------------------------------


def test_flags_of_torch_are_part_of_the_key(bases: Callable[[str], SentenceTransformer]) -> None:
    model = extended(bases("bert"))
    found = {keys(model)}
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            found.add(keys(model))
    precision = torch.get_float32_matmul_precision()
    for value in ("medium", "high"):
        torch.set_float32_matmul_precision(value)
        found.add(keys(model))
    torch.set_float32_matmul_precision(precision)
    torch.set_default_dtype(torch.float64)
    found.add(keys(model))
    torch.set_default_dtype(torch.float32)
    found.add(keys(model.half()))
    assert len(found) == 7
    assert len({short for short, _ in found}) == len({long for _, long in found}) == 7


def test_what_is_asked_for_is_part_of_the_key(bases: Callable[[str], SentenceTransformer]) -> None:
    model = extended(bases("bert"))
    found = {
        keys(model),
        keys(model, form="spans=4"),
        keys(model, kwargs={"task": "query"}),
        keys(model, "ab ac "),
    }
    assert len(found) == 4
    short, long = Fingerprint(model, CPU).keys([SHORT[:-1], LONG[::-1]], None)
    assert len({*keys(model), short, long}) == 4


FIELDS = [
    {"target_len": 64},
    {"logn": False},
    {"trained_len": 15},
    {"short": "scale"},
    {"strategy": "gp"},
    {"strategy": "gp", "factor": "target"},
    {"strategy": "rp"},
    {"strategy": "ntk"},
    {"strategy": "ntk", "sigma": 4.0},
    {"strategy": "pcw"},
    {"strategy": "pcw", "target_len": 64},
]


def test_any_field_of_a_strategy_is_another_key_for_long_documents(
    bases: Callable[[str], SentenceTransformer],
) -> None:
    models = [
        longembed.extend(bases("bert"), **{"strategy": "pi", **fields}).eval() for fields in [{}, *FIELDS]
    ]
    assert len({keys(model)[1] for model in models}) == len(models)


# ---- code -------------------------------------------------------------------------------------------------

CODE = """
import torch
FACTOR = 2.0
class Doubled(torch.nn.Module):
    def forward(self, features, **kwargs):
        features["sentence_embedding"] = features["sentence_embedding"] * factor()
        return features
def factor():
    return FACTOR
"""


def with_code(base: SentenceTransformer, name: str, code: str, beside: str = "") -> Any:
    module = type(sys)(name)
    other = type(sys)(f"{name.rpartition('.')[0]}.beside")
    sys.modules[name], sys.modules[other.__name__] = module, other
    exec(code, vars(module))
    exec(beside, vars(other))
    model = extended(base)
    model.append(module.Doubled())
    return model


def test_code_that_came_with_a_model_is_part_of_the_key(bases: Callable[[str], SentenceTransformer]) -> None:
    name = "transformers_modules.tiny.abc.modeling"
    edits = [
        CODE,
        CODE.replace("* factor()", "+ factor()"),
        CODE.replace("FACTOR = 2.0", "FACTOR = 3.0"),
        CODE.replace("return FACTOR", "return -FACTOR"),
    ]
    try:
        found = {keys(with_code(bases("bert"), name, code)) for code in edits}
        found.add(keys(with_code(bases("bert"), name, CODE, "def help(): return 1")))
        assert len(found) == len(edits) + 1
        assert keys(with_code(bases("bert"), name, CODE)) in found
    finally:
        for loaded in [key for key in sys.modules if key.startswith("transformers_modules.tiny.")]:
            del sys.modules[loaded]


REMOTE = """
from transformers import BertModel

class Own(BertModel):
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.last_hidden_state = out.last_hidden_state * 1.0
        return out
"""


def test_a_folders_code_file_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    tiny.sentence_transformer("bert", tmp_path)
    folder = tmp_path / "model"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "own.Own"}}))
    found = []
    for code in (REMOTE, REMOTE, REMOTE.replace("* 1.0", "+ 1.0")):
        (folder / "own.py").write_text(code)
        model = longembed.load(f"{folder}+pi:trust_remote_code=on", device="cpu").eval()
        assert type(model[0].model).__name__ == "Own"
        found.append((keys(model), model.encode([tiny.text(9)]).tobytes()))
    plain = longembed.load(f"{folder}+pi", device="cpu").eval()
    assert found[0] == found[1]
    assert len({keys(plain), found[0][0], found[2][0]}) == 3
    assert found[2][1] != found[0][1]


@pytest.mark.parametrize("where", ["module", "model", "before", "all"])
def test_a_hook_that_is_not_ours_switches_the_store_off_with_a_warning(
    bases: Callable[[str], SentenceTransformer], tmp_path: Path, where: str
) -> None:
    model = extended(bases("bert"))
    model.store = EmbeddingStore(tmp_path)
    layer = model[0].model.encoder.layer[0]
    register = {
        "module": lambda: layer.register_forward_hook(lambda module, args, out: out),
        "model": lambda: model.register_forward_hook(lambda module, args, out: out),
        "before": lambda: layer.register_forward_pre_hook(lambda module, args: None),
        "all": lambda: torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: out),
    }
    handle = register[where]()
    try:
        with pytest.warns(
            RuntimeWarning, match="has a forward hook .* the store of embeddings is off for this model"
        ):
            model.encode([tiny.text(5)])
    finally:
        handle.remove()
    assert model.store.counts.rows_read == 0
    assert not model.store.path.exists()
    model.encode([tiny.text(5)])
    assert model.store.path.exists()


def test_a_forward_method_that_was_replaced_switches_the_store_off(
    bases: Callable[[str], SentenceTransformer],
) -> None:
    model = extended(bases("bert"))
    layer = model[0].model.encoder.layer[0]
    layer.forward = lambda *args, **kwargs: type(layer).forward(layer, *args, **kwargs)
    with pytest.warns(RuntimeWarning, match="has a forward method of its own"):
        assert fingerprint(model, CPU) is None


# ---- what does not matter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SIZES)
def test_a_model_has_the_same_keys_made_again_used_saved_and_loaded(
    bases: Callable[[str], SentenceTransformer], kind: str, tmp_path: Path
) -> None:
    model = extended(bases(kind), "pi")
    before = keys(model)
    model.encode([tiny.text(5), tiny.text(16), tiny.text(40)], prompt="aa ")
    assert keys(model) == before
    assert keys(extended(bases(kind), "pi")) == before
    model.save_pretrained(str(tmp_path / "saved"))
    assert keys(longembed.load(tmp_path / "saved", device="cpu").eval()) == before


def test_neither_name_nor_batch_size_nor_store_matters(
    bases: Callable[[str], SentenceTransformer], tmp_path: Path
) -> None:
    model = extended(bases("bert"))
    before = keys(model)
    model.model_card_data.model_name = "another/name"
    model.model_card_data.base_model_revision = "another"
    model.store = EmbeddingStore(tmp_path)
    model.encode([tiny.text(5)], batch_size=1)
    model.train().eval()
    assert keys(model) == before


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_document_that_a_strategy_leaves_alone_has_the_bases_embedding_and_key(
    bases: Callable[[str], SentenceTransformer], kind: str, strategy: str
) -> None:
    base = bases(kind)
    if not fits(base, strategy):
        pytest.skip("the two do not fit")
    model, plain = extended(base, strategy), extended(base, "none")
    texts = [tiny.text(n) for n in (2, 3, 9, 15, 16)]
    short, unextended = keys(model)[0], keys(plain)[0]
    if model.first.leaves_unchanged(len(SHORT)):
        assert short == unextended
        np.testing.assert_allclose(model.encode(texts), plain.encode(texts), atol=2e-6)
        np.testing.assert_allclose(model.encode(texts), base.encode(texts), atol=2e-6)
    else:
        assert (kind in ("mistral", "modernbert", "roformer"), strategy) == (True, "ntk")
        assert short != unextended
    assert not model.first.leaves_unchanged(17)


@pytest.mark.parametrize(
    ("kind", "strategy", "param"),
    [
        ("bert", "pi", {"short": "scale"}),
        ("bert", "gp", {"factor": "target"}),
        ("mistral", "yarn", {"short": "scale"}),
    ],
)
def test_a_parameter_that_changes_short_documents_gives_them_a_key_of_their_own(
    bases: Callable[[str], SentenceTransformer], kind: str, strategy: str, param: dict[str, object]
) -> None:
    texts = [tiny.text(15)]
    changed, kept = extended(bases(kind), strategy, **param), extended(bases(kind), strategy)
    assert np.abs(changed.encode(texts) - kept.encode(texts)).max() > 1e-4
    assert keys(changed)[0] != keys(kept)[0]


# ---- the checksum -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float64])
@pytest.mark.parametrize("of", [checksum, lambda t: sums(t.contiguous().reshape(-1).view(torch.uint8))])
def test_a_checksum_changes_with_any_bit(of: Callable[[Tensor], bytes], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    tensor = (torch.randn(70_001) * 9).to(dtype)
    before = of(tensor)
    assert of(tensor.clone()) == before
    size = tensor.element_size()
    flat = tensor.view(torch.uint8)
    for at in (0, 1, 7, 8, 65_535, 65_536, 70_000 * size, 70_001 * size - 1):
        for bit in (1, 128):
            flat[at] ^= bit
            assert of(tensor) != before
            flat[at] ^= bit
    assert of(tensor) == before


def test_sums_see_what_plain_sums_do_not() -> None:
    tensor = torch.randn(2, 4096)
    flat = lambda t: sums(t.contiguous().reshape(-1).view(torch.uint8))  # noqa: E731
    negated = tensor.clone()
    negated[:, 1::2].neg_()  # the highest bit of every word of 8 bytes
    swapped = tensor.flip(0)
    moved = tensor.roll(1)
    assert len({flat(t) for t in (tensor, negated, swapped, moved, tensor * 2, tensor.neg())}) == 6


def test_a_checksum_reads_views_and_empty_tensors() -> None:
    tensor = torch.arange(24.0).view(4, 6)
    assert checksum(tensor.t()) == checksum(tensor.t().contiguous())
    assert checksum(tensor[1:, 1:]) == checksum(tensor[1:, 1:].clone())
    assert checksum(torch.zeros(0)) != checksum(torch.zeros(0, dtype=torch.float64))
    assert checksum(torch.tensor(1.0)) != checksum(torch.tensor([1.0]))
    odd = torch.arange(30, dtype=torch.uint8)[3:]
    assert sums(odd) == sums(odd.clone())


def test_a_tensor_without_bytes_switches_the_store_off(bases: Callable[[str], SentenceTransformer]) -> None:
    model = extended(bases("bert"))
    model[0].model.encoder.layer[0].extra = torch.zeros(3, device="meta")
    with pytest.warns(RuntimeWarning, match="cannot be read bit by bit"):
        assert fingerprint(model, CPU) is None
