"""Unexpected texts and data sets: none may crash, hang, or change another document's embedding."""

from pathlib import Path

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb._create_dataloaders import create_dataloader
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

import mteb_longembed as longembed
from mteb_longembed.plugin.encoder import LongEncoder
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from tests import miniatures, tiny

TARGET = 128
ODD = [
    "", " ", "\t\n\r ", "\u00a0\u3000", "\u200b", "\ufeff", "\x00", "a\x00b", "\x1b[31m", "\\", '"', "%s{}",
]  # fmt: skip
UNICODE = ["\u0301", "e\u0301", "é", "ﬁ", "Å", "Å", "각", "각", "👩\u200d👩\u200d👧", "🇩🇪" * 30, "😀" * 70]
UNICODE += ["\u202eabc\u202c", "שלום עולם", "مرحبا بالعالم", "日本語" * 50]
UNICODE += ["ไทย", "\ufffe", "\U0010ffff", "ＡＢ"]
BROKEN = ["\ud800", "a\udfff b", "\ud83d", "\ud83d\ude00"]
SPECIAL = [
    "[SEP]", "[CLS] [PAD]", "[MASK]" * 40, "</s>", "<s>", "<pad>", "<|endoftext|>", "query: ", "passage: ",
]  # fmt: skip
LONG = [
    "x" * 9000, "-" * 700, " " * 5000, "aa " * 600, "[PAD] " * 300, "\n" * 999, "0" * 300, "a\u0301" * 900,
]  # fmt: skip
NASTY = [*ODD, *UNICODE, *BROKEN, *SPECIAL, *LONG]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return tiny.sentence_transformer("bert", tmp_path_factory.mktemp("base"), name="tiny/bert")


@pytest.fixture(scope="module", params=["none", "pcw"])
def model(request: pytest.FixtureRequest, base: SentenceTransformer) -> SentenceTransformer:
    return longembed.extend(base, request.param, target_len=None if request.param == "none" else TARGET)


def check(model: SentenceTransformer, texts: list[str], prompt: str | None, batch_size: int) -> None:
    """Every document finite, and the same as alone."""
    vectors = model.encode(texts, prompt=prompt, batch_size=batch_size)
    assert vectors.shape == (len(texts), 32)
    assert np.isfinite(vectors).all()
    for text, embedding in zip(texts, vectors, strict=True):
        assert np.allclose(model.encode(text, prompt=prompt), embedding, atol=1e-5)


def test_every_nasty_text_is_encoded_as_if_it_were_alone(model: SentenceTransformer) -> None:
    check(model, NASTY, None, 32)
    check(model, NASTY[::-1], "query: ", 5)


@pytest.mark.parametrize("piece", ["aa bb, ", "日本"])
def test_a_text_of_half_a_megabyte_is_encoded_like_its_beginning(base, piece: str) -> None:
    text = piece * (500_000 // len(piece.encode()))
    model = longembed.extend(base, "pi", target_len=TARGET)
    vectors = model.encode([text, "aa"])
    assert np.isfinite(vectors).all()
    # a single word of any length is one unknown token
    start = text[:5000]
    assert np.allclose(vectors, model.encode([start, "aa"]), atol=1e-5)


@pytest.mark.parametrize("kind", ["unigram", "byte_bpe", "llama_bpe"])
def test_every_kind_of_tokenizer_takes_every_nasty_text(kind: str, tmp_path: Path) -> None:
    tokenizer = getattr(miniatures, kind)()
    folder = tiny.transformer("roberta", tmp_path / "model", vocab_size=len(tokenizer) + 5)
    tokenizer.model_max_length = tiny.TRAINED
    tokenizer.save_pretrained(folder)
    stock = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(32, "mean")], device="cpu")
    stock.model_card_data.model_name = f"tiny/{kind}"
    check(longembed.extend(stock, "pi", target_len=TARGET), NASTY, None, 7)


# ---- data sets ---------------------------------------------------------------------------------------------


@pytest.fixture
def encoder(base: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LongEncoder:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    return LongEncoder(longembed.extend(base, "pi", target_len=TARGET))


def rows(prefix: str, texts: list[str]) -> list[dict[str, str]]:
    return [{"id": f"{prefix}{i}", "text": text, "title": ""} for i, text in enumerate(texts)]


def test_a_query_finds_its_own_text_among_odd_equal_and_empty_ones(encoder: LongEncoder, tmp_path) -> None:
    texts = [text for text in NASTY if text not in BROKEN]  # a data set cannot hold a lone surrogate
    target = tiny.text(40, 3)
    corpus = rows("d", [target, "", "", tiny.text(40, 4), *texts])
    queries = rows("q", [target, "[SEP]", "", tiny.text(12)])  # those without relevant documents do not count
    tables = {"corpus": Dataset.from_list(corpus), "queries": Dataset.from_list(queries)}
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    split = {**tables, "relevant_docs": {"q0": {"d0": 1}}, "top_ranked": None}
    task.dataset = {"default": {"test_256": split}}
    task.data_loaded = True
    result = mteb.evaluate(encoder, [task], cache=mteb.ResultCache(tmp_path), show_progress_bar=False)
    assert result.task_results[0].scores["test_256"][0]["ndcg_at_1"] == 1


def test_no_texts_give_an_empty_array_of_the_models_width(encoder: LongEncoder) -> None:
    empty = Dataset.from_dict({"id": [], "text": [], "title": []})
    task = LongEmbedPasskey()
    loader = create_dataloader(empty, task_metadata=task.metadata, prompt_type=None)
    vectors = encoder.encode(loader, task_metadata=task.metadata, hf_split="test_256", hf_subset="default")
    assert vectors.shape == (0, 32)
