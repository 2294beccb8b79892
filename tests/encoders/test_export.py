"""Exported checkpoints are whole, in the form that old and new readers know, or are refused.

`test_export_matrix` compares their embeddings, and `tests/readers` opens such folders in old versions.
"""

import json
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from mteb_longembed.cli import main
from mteb_longembed.encoders.export import export
from mteb_longembed.encoders.load import extend, load
from mteb_longembed.errors import IncompatibleError, InputError, StorageError
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LINEAR, LO, LT

LONG = [tiny.text(n) for n in (LO + 1, 2 * LO + 3, LT)]
MODELS = {
    "bert": ("bert", {}),
    "mistral": ("mistral", {**GQA, "sliding_window": LO}),
    "linear": ("llama", {**GQA, "rope_parameters": LINEAR}),
}


def folder_of(name: str, folder: Path) -> str:
    kind, config = MODELS[name]
    return str(tiny.saved(kind, folder, **config))


def test_a_model_that_stock_code_loaded_from_our_folder_is_exported_with_its_card(tmp_path):
    extend(folder_of("bert", tmp_path), "pi", LT, LO, device="cpu").save_pretrained(str(tmp_path / "saved"))
    export(SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True), tmp_path / "plain")
    assert f"extended to {LT} tokens by the strategy `pi`" in (tmp_path / "plain" / "README.md").read_text()


def test_what_is_lost_is_said_and_stands_in_the_model_card(tmp_path, capsys):
    folder = folder_of("bert", tmp_path)
    # trained_len as a name gives it: the folder's own 16 tokens
    assert main(["export", f"{folder}+pi@{LT}", str(tmp_path / "plain")]) == 0
    out = capsys.readouterr().out
    card = (tmp_path / "plain" / "README.md").read_text()
    for sentence in ("inputs of at most 16 tokens are extended like longer ones", "with logn=off"):
        assert sentence in out and sentence in card


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("bert", "pcw", "cuts windows while it runs; use pi, ntk or rp"),
        ("bert", "gp", "depend on each document's length; use gp:factor=target"),
        ("mistral", "se", "acts on each document while it runs; use ntk, pi, yarn"),
        ("mistral", "gp", "acts on each document while it runs"),
        ("linear", "yarn", "rope scaling of type linear has no setting in transformers"),
    ],
)
def test_what_would_be_another_method_is_refused(name, key, message, tmp_path):
    ours = extend(folder_of(name, tmp_path), key, LT, LO, device="cpu")
    with pytest.raises(IncompatibleError, match=message):
        export(ours, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


def test_several_vectors_and_a_folder_that_is_not_empty_get_one_sentence(tmp_path):
    folder = folder_of("bert", tmp_path)
    with pytest.raises(IncompatibleError, match="several vectors per document cannot be a plain checkpoint"):
        export(f"{folder}+pi@{LT}:vectors=8", tmp_path / "plain")
    with pytest.raises(InputError, match="must be empty or not exist"):
        export(f"{folder}+pi@{LT}", folder)


def test_what_is_no_transformer_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = StaticEmbedding(tiny.tokenizer().backend_tokenizer, embedding_dim=8)
    with pytest.raises(IncompatibleError, match="got a StaticEmbedding"):
        export(SentenceTransformer(modules=[words], device="cpu"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def disk_takes_small_files():
    """No file may have more than 20,000 bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_model_that_the_disk_does_not_take_leaves_no_folder(base, tmp_path, request) -> None:
    model = extend(base, "pi", 64, device="cpu")
    request.getfixturevalue("disk_takes_small_files")
    with pytest.raises(
        StorageError, match=r"'.*made' cannot be written \(.*\): make room, or give another folder"
    ):
        export(model, tmp_path / "made")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "made"))]


# ---- the form that old readers know ------------------------------------------------------------------------


def content(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def edit(file: Path, **settings: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_modules_have_old_names_and_the_settings_of_old_classes(mode, tmp_path) -> None:
    base = tiny.saved("bert", tmp_path, pooling=mode, dense=True, prompts=tiny.PROMPTS)
    assert export(f"{base}+pi@64:logn=off", tmp_path / "plain")
    plain = tmp_path / "plain"
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    assert [module["type"] for module in content(plain, "modules.json")] == [
        f"sentence_transformers.models.{kind}" for kind in kinds
    ]
    pooling = content(plain, "1_Pooling/config.json")
    assert [key for key, value in pooling.items() if value is True and key.startswith("pooling_mode")] == [
        {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}[mode]
    ]
    assert pooling["word_embedding_dimension"] == 32
    assert content(plain, "sentence_bert_config.json") == {"max_seq_length": 64, "do_lower_case": False}
    assert set(content(plain, "2_Dense/config.json")) == {
        "in_features", "out_features", "bias", "activation_function",
    }  # fmt: skip
    stock = SentenceTransformer(str(plain), device="cpu")
    ours = load(f"{base}+pi@64:logn=off", device="cpu")
    assert stock.max_seq_length == 64
    texts = [tiny.text(40), tiny.text(60, 1)]
    assert np.abs(stock.encode_document(texts) - ours.encode_document(texts)).max() < 1e-6


@pytest.mark.parametrize("tail", ["", "+pi@64:logn=off"])
def test_an_adapted_model_has_stock_modules_and_its_pooling_where_readers_look(tail, tmp_path) -> None:
    corpus = [tiny.text(10 + i, i) for i in range(12)]
    model = tiny.adapted(f"{tiny.saved('bert', tmp_path)}{tail}", corpus)
    texts = [tiny.text(14), tiny.text(16, 1)] if not tail else [tiny.text(40)]
    before = model.encode(texts)
    export(model, tmp_path / "plain")
    assert np.array_equal(model.encode(texts), before)
    modules = {module["type"]: module["path"] for module in content(tmp_path / "plain", "modules.json")}
    kinds = ["Transformer", "WordWeights", "Pooling", "Dense", "Normalize"]
    assert list(modules) == [f"sentence_transformers.models.{kind}" for kind in kinds]
    assert modules["sentence_transformers.models.Pooling"] == "1_Pooling"
    assert "counted" not in content(tmp_path / "plain", "1_WordWeights/config.json")
    stock = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    assert np.abs(stock.encode(texts) - before).max() < 2e-6


ROPE = {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize(
    ("kind", "config", "key", "settings", "scaling"),
    [
        ("llama", {**GQA, "rope_parameters": ROPE}, "pi", {"rope_theta": 500.0}, "linear"),
        ("llama", {**GQA, "rope_parameters": ROPE}, "yarn", {"rope_theta": 500.0}, "yarn"),
        (
            "stablelm",
            {**GQA, "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5}},
            "pi",
            {"rope_theta": 500.0, "partial_rotary_factor": 0.5},
            "linear",
        ),
        ("gemma3_text", GEMMA, "pi", {"rope_local_base_freq": 10_000.0}, "linear"),
        ("modernbert", {**LAYERS, "local_attention": 12}, "pi", {"local_rope_theta": 10_000.0}, None),
    ],
)
def test_rotary_settings_stand_where_transformers_4_reads_them(
    kind, config, key, settings, scaling, tmp_path
) -> None:
    base = tiny.saved(kind, tmp_path, **config)
    lost = export(extend(base, key, LT, LO, logn=False, device="cpu"), tmp_path / "plain")
    written = content(tmp_path / "plain", "config.json")
    assert settings.items() <= written.items()
    assert written.get("rope_scaling", {}).get("rope_type") == scaling
    assert any("no rope scaling" in sentence for sentence in lost) == (scaling is None)


def test_ntk_on_modernbert_is_the_theta_of_its_full_layers(tmp_path) -> None:
    base = tiny.saved("modernbert", tmp_path, **LAYERS, local_attention=12)
    export(extend(base, "ntk", LT, LO, logn=False, device="cpu"), tmp_path / "plain")
    written = content(tmp_path / "plain", "config.json")
    assert written["global_rope_theta"] == written["rope_parameters"]["full_attention"]["rope_theta"]
    assert written["global_rope_theta"] > written["local_rope_theta"]


def test_every_length_in_the_folder_is_the_target(tmp_path) -> None:
    base = tiny.saved("bert", tmp_path)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_id=1, pad_token="[PAD]")
    tokenizer.save(str(base / "tokenizer.json"))
    edit(base / "tokenizer_config.json", max_length=8)
    export(f"{base}+pi@64:logn=off", tmp_path / "plain")
    written = Tokenizer.from_file(str(tmp_path / "plain" / "tokenizer.json"))
    assert len(written.encode(tiny.text(100)).ids) == 64
    assert len(written.encode(tiny.text(5)).ids) == 5
    settings = content(tmp_path / "plain", "tokenizer_config.json")
    lengths = {key: value for key, value in settings.items() if key.endswith("max_length")}
    assert lengths == {"max_length": 64, "model_max_length": 64}


def test_transformers_4_knows_the_tokenizers_class_and_its_special_tokens(tmp_path) -> None:
    base = tiny.saved("bert", tmp_path)
    edit(base / "tokenizer_config.json", extra_special_tokens=["[NOTE]"])
    export(f"{base}+pi@64:logn=off", tmp_path / "plain")
    settings = content(tmp_path / "plain", "tokenizer_config.json")
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "extra_special_tokens" not in settings
    assert settings["additional_special_tokens"] == ["[NOTE]"]
    stock = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    assert "[NOTE]" in stock.tokenizer.all_special_tokens
