"""A base reads as many tokens as sentence-transformers says, however its folder was saved."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

from mteb_longembed import extend, load
from mteb_longembed.encoders.base import read_base
from tests import tiny

TEXTS = [tiny.text(60, 1), tiny.text(20, 2), tiny.text(9, 3)]
#: The kinds of folders, and the class of sentence-transformers that opens each.
STOCK_CLASSES: dict[str, tuple[Callable[[Path], Path], type]] = {
    "dense": (lambda folder: tiny.saved("bert", folder), SentenceTransformer),
    "dense from padding": (lambda folder: tiny.saved("roberta", folder), SentenceTransformer),
    "rotary": (lambda folder: tiny.saved("modernbert", folder), SentenceTransformer),
    "transformers": (lambda folder: tiny.transformer("bert", folder / "plain"), SentenceTransformer),
    "late interaction": (lambda folder: _saved(tiny.late("bert", folder), folder), MultiVectorEncoder),
    "sparse": (lambda folder: _saved(tiny.sparse("bert", folder), folder), SparseEncoder),
}


def _saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(str(folder / "saved"))
    return folder / "saved"


def change(path: Path, **values: object) -> None:
    """Change values of a JSON file; None removes one."""
    content = json.loads(path.read_text()) if path.exists() else {}
    content |= values
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def vectors(model: Any, texts: list[str]) -> list[np.ndarray]:
    """The document vectors of each text."""
    options: dict[str, Any] = {"show_progress_bar": False}
    if isinstance(model, SparseEncoder):
        options["convert_to_sparse_tensor"] = False
    return [
        np.asarray(row.cpu() if hasattr(row, "cpu") else row)
        for row in model.encode_document(texts, **options)
    ]


def check_like_stock(folder: Path, kind: type, length: int) -> None:
    """Ours reads this many tokens, as the stock class does, and has its vectors."""
    stock = kind(str(folder), device="cpu")
    ours = load(f"{folder}+none", device="cpu")
    assert ours.max_seq_length == ours.backbone.strategy.trained_len == length
    assert min(stock.max_seq_length, length) == length
    assert extend(folder, "pcw", device="cpu").max_seq_length == 8 * length
    for got, want in zip(vectors(ours, TEXTS), vectors(stock, TEXTS), strict=True):
        assert got == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("name", STOCK_CLASSES)
def test_a_model_that_is_loaded_shortened_and_saved_again_keeps_its_limit(name: str, tmp_path: Path) -> None:
    make, kind = STOCK_CLASSES[name]
    model = kind(str(make(tmp_path)), device="cpu")
    model.max_seq_length = 12
    if hasattr(model, "model_card_data"):
        model.model_card_data.model_name = "me/tiny"
    model.save_pretrained(str(tmp_path / "again"), create_model_card=False)
    check_like_stock(tmp_path / "again", kind, 12)


@pytest.mark.parametrize("name", STOCK_CLASSES)
def test_the_limit_of_a_tokenizer_counts_and_never_exceeds_the_table(name: str, tmp_path: Path) -> None:
    make, kind = STOCK_CLASSES[name]
    folder = make(tmp_path)
    read = next(folder.rglob("tokenizer_config.json"))
    change(read, model_max_length=9)
    for settings in folder.glob("sentence_*_config.json"):
        change(settings, max_seq_length=None)
    check_like_stock(folder, kind, 9)


#: Settings of the Transformer module and of the tokenizer -> tokens.
LIMITS = [
    ("sentence_bert_config.json", {"max_seq_length": 10}, {"model_max_length": 20}, 10),
    ("sentence_bert_config.json", {"max_seq_length": 12}, {"model_max_length": 9}, 12),
    (
        "sentence_bert_config.json",
        {"processor_kwargs": {"model_max_length": 11}},
        {"model_max_length": 20},
        11,
    ),
    ("sentence_bert_config.json", {"tokenizer_args": {"model_max_length": 11}}, {}, 11),
    ("sentence_roberta_config.json", {"max_seq_length": 13}, {"model_max_length": 20}, 13),
    ("sentence_xlm-roberta_config.json", {"max_seq_length": 13}, {}, 13),
    ("sentence_bert_config.json", {}, {"model_max_length": int(1e30)}, tiny.TRAINED),
    ("sentence_bert_config.json", {}, {}, tiny.TRAINED),
]


@pytest.mark.parametrize(("name", "module", "tokenizer", "length"), LIMITS)
def test_the_settings_of_the_module_precede_the_tokenizer(
    name: str, module: dict[str, object], tokenizer: dict[str, object], length: int, tmp_path: Path
) -> None:
    folder = tiny.saved("bert", tmp_path)
    own = folder / "sentence_bert_config.json"
    change(own, **{"max_seq_length": None, **module})
    own.rename(folder / name)
    change(folder / "tokenizer_config.json", **{"model_max_length": None, **tokenizer})
    check_like_stock(folder, SentenceTransformer, length)


def test_the_tokenizer_of_an_adapter_has_the_limit(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    folder = tiny.saved("bert", tmp_path)
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 12
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["query"]))
    model.save_pretrained(str(tmp_path / "adapter"), create_model_card=False)
    want = SentenceTransformer(str(tmp_path / "adapter"), device="cpu").max_seq_length
    assert read_base(str(tmp_path / "adapter"), None, trust_remote_code=False).trained_len == want == 12
