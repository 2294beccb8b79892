"""A model is what it was built as, until anything that determines its embeddings changes; then it is another one."""

import copy
import functools
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

import mteb_longembed as longembed
from mteb_longembed.encoders.base import read_base
from mteb_longembed.errors import ModelError
from tests import tiny
from tests.encoders.test_rotary import GQA

TEXTS = [tiny.text(n) for n in (5, 40, 100)]
SIZES: dict[str, dict[str, Any]] = {
    "bert": {},
    "mistral": GQA,
    "modernbert": {"local_attention": 8, "cls_token_id": 0, "sep_token_id": 2},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @functools.cache
    def folder(kind: str) -> Path:
        more = {"dense": True, "prompts": tiny.PROMPTS, **SIZES[kind]}
        return tiny.saved(kind, tmp_path_factory.mktemp(kind), **more)

    return folder


def write(tensor: torch.Tensor) -> None:
    """Write to a weight as an optimizer does."""
    with torch.no_grad():
        tensor.view(-1)[-1] += 1


def layer(model: Any) -> Any:
    return model[0].model.encoder.layer[1]


def train(model: Any) -> None:
    model.train()
    optimizer = torch.optim.AdamW(layer(model).parameters(), lr=1e-3)
    model(model.preprocess(TEXTS))["sentence_embedding"].sum().backward()
    optimizer.step()
    model.eval()


def load_weights(model: Any, **options: Any) -> None:
    model.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()}, **options)


def merge_an_adapter(model: Any) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["query"])
    peft.get_peft_model(model[0].model, config).merge_and_unload()


def add_an_adapter(model: Any) -> None:
    peft = pytest.importorskip("peft")
    model.add_adapter(peft.LoraConfig(r=2, init_lora_weights=False))


CHANGES: dict[str, Callable[[Any], Any]] = {
    "one step of training": train,
    "load_state_dict": load_weights,
    "load_state_dict with new tensors": lambda m: load_weights(m, assign=True),
    "a write to the last module": lambda m: write(m[2].linear.bias),
    "a write to a buffer": lambda m: write(m[0].model.embeddings.token_type_ids),
    "an adapter": add_an_adapter,
    "an adapter that was merged": merge_an_adapter,
    "a replaced module": lambda m: m[0].model.set_submodule(
        "encoder.layer.1.output.dense", torch.nn.Identity()
    ),
    "a replaced parameter": lambda m: setattr(m[2].linear, "bias", torch.nn.Parameter(m[2].linear.bias + 1)),
    "a module more": lambda m: m.append(Normalize()),
    "another compute type": lambda m: m.bfloat16(),
    "a prompt": lambda m: m.prompts.update(query="Query: "),
    "the similarity": lambda m: setattr(m, "similarity_fn_name", "dot"),
    "the longest input": lambda m: setattr(m, "max_seq_length", 32),
    "the dimensions that are kept": lambda m: setattr(m, "truncate_dim", 8),
}


@pytest.fixture(scope="module")
def built(folders: Callable[[str], Path]) -> Any:
    return longembed.extend(folders("bert"), "pi", 64)


@pytest.fixture
def bert(built: Any) -> Any:
    """A copy that a test may change."""
    return copy.deepcopy(built)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_another_one_with_a_digest_as_revision(bert: Any, change: str) -> None:
    original = bert.identity()
    assert (original.name, original.changed_from) == ("local/model+pi@64", None) and bert.is_unchanged()
    CHANGES[change](bert)
    now = bert.identity()
    assert not bert.is_unchanged() and now.changed_from == original.name
    assert now.name == "local/model+pi@64" and len(now.revision) == 40 and now.revision != original.revision
    assert bert.identity() == now


def test_two_changes_make_two_revisions_and_equal_changes_one(built: Any) -> None:
    revisions = []
    for bias in (1.0, 2.0, 2.0):
        model = copy.deepcopy(built)
        with torch.no_grad():
            model[2].linear.bias.fill_(bias)
        revisions.append(model.identity().revision)
    assert revisions[0] != revisions[1] == revisions[2]


def test_copies_keep_what_they_are(bert: Any) -> None:
    for copied in (copy.deepcopy(bert), pickle.loads(pickle.dumps(bert)), copy.copy(bert)):
        assert copied.identity() == bert.identity() and copied.is_unchanged()
    write(bert[2].linear.bias)
    for copied in (copy.deepcopy(bert), pickle.loads(pickle.dumps(bert))):
        assert copied.identity() == bert.identity() and not copied.is_unchanged()


def test_use_training_mode_devices_and_the_cache_are_no_change(bert: Any) -> None:
    original = bert.identity()
    bert.encode(TEXTS, normalize_embeddings=True)
    bert.similarity(bert.encode_query(TEXTS), bert.encode_document(TEXTS))
    bert.train()
    bert.embedding_cache = object()
    bert.to("cpu")
    assert bert.identity() == original


@pytest.mark.parametrize("kind", ["mistral", "modernbert"])
def test_use_never_changes_a_rotary_model(kind: str, folders: Callable[[str], Path]) -> None:
    for key in ["pcw", "pi", "se"]:
        model: Any = longembed.extend(folders(kind), key, trained_len=16, logn=False)
        model.encode(TEXTS)
        model.encode_query(TEXTS, batch_size=1)
        assert model.is_unchanged(), key


def test_a_loaded_base_is_known_by_the_digest_of_its_weights(folders) -> None:
    loaded = SentenceTransformer(str(folders("bert")), device="cpu")
    same, again = longembed.extend(loaded, "pi"), longembed.extend(loaded, "pi")
    assert same.identity() == again.identity() and same.identity().name == "local/model+pi@128"
    assert np.array_equal(same.encode(TEXTS), longembed.extend(folders("bert"), "pi").encode(TEXTS))
    write(layer(loaded).output.dense.bias)
    assert longembed.extend(loaded, "pi").identity().revision != same.identity().revision


def test_what_was_trained_with_none_and_extended_then_has_its_weights_and_prompts(folders) -> None:
    model: Any = longembed.extend(folders("bert"), "none")
    write(layer(model).output.dense.bias)
    model.prompts["query"] = "Query : "
    extended: Any = longembed.extend(model, "gp")
    assert np.allclose(extended.encode(TEXTS[:1]), model.encode(TEXTS[:1]), atol=1e-6)
    assert extended.prompts["query"] == "Query : "
    assert extended.resolved.base.revision == model.identity().revision
    assert extended.identity().name == "local/model+gp@128"


def test_a_saved_changed_model_has_another_revision(bert: Any, tmp_path: Path) -> None:
    bert.save_pretrained(str(tmp_path / "same"))
    write(layer(bert).output.dense.bias)
    bert.save_pretrained(str(tmp_path / "changed"))
    revisions = [longembed.load(tmp_path / name).identity().revision for name in ("same", "changed")]
    assert revisions[0] != revisions[1]


def revision_of(folder: Path) -> str | None:
    return read_base(str(folder), None, trust_remote_code=False).revision


@pytest.fixture
def folder(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(folders("bert"), tmp_path / "model"))


def test_a_linked_folder_is_part_of_a_local_revision(folder: Path, tmp_path: Path) -> None:
    revision = revision_of(folder)
    (folder / "1_Pooling").rename(tmp_path / "pool")
    (folder / "1_Pooling").symlink_to(tmp_path / "pool")
    (folder / "loop").symlink_to(folder)
    assert revision_of(folder) == revision
    config = tmp_path / "pool" / "config.json"
    config.write_text(config.read_text().replace("mean", "last"))  # as long as before
    assert revision_of(folder) != revision


def test_other_folders_beside_a_model_are_no_part_of_its_revision(folder: Path) -> None:
    revision = revision_of(folder)
    for name in ("onnx/config.json", "checkpoint-10/model.safetensors"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("{}")
    assert revision_of(folder) == revision


def test_a_tokenizer_without_its_files_is_refused_and_a_padded_table_is_not(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    name = "embeddings.word_embeddings.weight"
    table = weights[name]
    weights[name] = torch.cat([table, table.mean() + torch.zeros_like(table[:-1])])
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 2 * len(table) - 1}))
    longembed.load(f"{folder}+gp")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"half as many entries as the model's table has rows .* got 5:"):
        longembed.load(f"{folder}+gp")


def test_weights_that_a_model_needs_are_never_random(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    headless = {key: value for key, value in weights.items() if "pooler" not in key}
    save_file(headless, folder / "model.safetensors", {"format": "pt"})
    longembed.extend(folder, "gp")
    broken = {key: value for key, value in headless.items() if "layer.1.output" not in key}
    save_file(broken, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ModelError, match=r"lacks \d+ weights that the model needs: encoder\.layer\.1\.output"
    ):
        longembed.extend(folder, "gp")
