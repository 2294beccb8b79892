"""The form that old and new readers know; `tests/readers` opens such folders in old versions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import mteb_longembed as longembed
from mteb_longembed.encoders.export import export
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LO, LT

CORPUS = [tiny.text(10 + i, i) for i in range(12)]


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
    ours = longembed.load(f"{base}+pi@64:logn=off", device="cpu")
    assert stock.max_seq_length == 64
    texts = [tiny.text(40), tiny.text(60, 1)]
    assert np.abs(stock.encode_document(texts) - ours.encode_document(texts)).max() < 1e-6


@pytest.mark.parametrize("tail", ["", "+pi@64:logn=off"])
def test_an_adapted_model_has_stock_modules_and_its_pooling_where_readers_look(tail, tmp_path) -> None:
    model = tiny.adapted(f"{tiny.saved('bert', tmp_path)}{tail}", CORPUS)
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
    lost = export(longembed.extend(base, key, LT, LO, logn=False, device="cpu"), tmp_path / "plain")
    written = content(tmp_path / "plain", "config.json")
    assert settings.items() <= written.items()
    assert written.get("rope_scaling", {}).get("rope_type") == scaling
    assert any("no rope scaling" in sentence for sentence in lost) == (scaling is None)


def test_ntk_on_modernbert_is_the_theta_of_its_full_layers(tmp_path) -> None:
    base = tiny.saved("modernbert", tmp_path, **LAYERS, local_attention=12)
    export(longembed.extend(base, "ntk", LT, LO, logn=False, device="cpu"), tmp_path / "plain")
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
