"""One pass of a model: which texts are encoded, when, and what stays of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import mteb
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import CNN, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling as StockPooling

import mteb_longembed as longembed
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.retrieval import encoding
from mteb_longembed.retrieval.encoder import Encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.mteb_models import MTEBEncoder
from mteb_longembed.retrieval.scorer import Documents
from tests import tiny
from tests.limits import same_vectors
from tests.retrieval.test_vector_scorer import WordVectors, counts_of, unit

TEXTS = ["A cat.", " A dog. ", "A cow, a cow.", "A cat, a dog.", "Rain."]


class Noting(WordVectors):
    """An encoder that notes the kind and the texts of each call, and fails on some texts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.batch_sizes: set[int] = set()
        self.failing = ""

    def encode(self, inputs: Any, **options: Any) -> np.ndarray:
        batches = list(inputs)
        texts = [text for batch in batches for text in batch["text"]]
        self.calls.append((options["prompt_type"].value, texts))
        self.batch_sizes = {len(batch["text"]) for batch in batches}
        if self.failing and self.failing in texts:
            raise ValueError("failing")
        return super().encode(batches, **options)


def made() -> tuple[Encoding, Any, Noting]:
    encoder = Noting()
    encoded = Encoding(MTEBEncoder(encoder))
    return encoded, encoded.vectors(Pooling()), encoder


def documents(n: int, **given: Any) -> Documents:
    return Documents(list("abcde"[:n]), TEXTS, **given)


def rows_of(one: Any) -> list[list[float]]:
    return [row for index in range(len(one)) for row in one.rows.document(index).tolist()]


def test_documents_are_encoded_once_in_calls_of_limited_size(monkeypatch) -> None:
    monkeypatch.setattr(encoding, "CALL_BYTES", 2)
    encoded, one, encoder = made()
    first = documents(3)
    encoded.fit(first)
    encoded.fit(first)
    assert encoder.calls == [("document", ["A cat.", "A dog."]), ("document", ["A cow, a cow."])]
    encoder.calls.clear()
    encoded.add(first)
    encoded.add(documents(5))
    encoded.keep(documents(5), np.zeros(5, bool))  # as many as before: nothing goes
    assert encoder.calls == [("document", ["A cat, a dog.", "Rain."])]
    assert rows_of(one) == counts_of(TEXTS).tolist()
    encoded.keep(Documents(["b"], TEXTS[1:2]), np.array([0, 1, 0, 0, 0], bool))
    assert rows_of(one) == [[0, 1, 0]] and len(encoded.documents) == 1
    encoded.fit(documents(2))
    assert rows_of(one) == counts_of(TEXTS[:2]).tolist()


def test_a_call_that_fails_leaves_the_vectors_of_the_documents_before(monkeypatch) -> None:
    monkeypatch.setattr(encoding, "CALL_BYTES", 1)
    encoded, one, encoder = made()
    encoder.failing = "A cat, a dog."
    encoded.fit(documents(2))
    with pytest.raises(ValueError, match="failing"):
        encoded.add(documents(5))
    assert rows_of(one) == counts_of(TEXTS[:2]).tolist() and len(encoded.documents) == 2
    with pytest.raises(ValueError, match="failing"):
        encoded.fit(documents(4))
    assert rows_of(one) == []
    encoder.failing = ""
    encoded.fit(documents(4))
    assert rows_of(one) == counts_of(TEXTS[:4]).tolist()


def test_a_batch_has_32_texts_unless_the_options_say_otherwise() -> None:
    for options, size in (({}, 32), ({"batch_size": 3}, 3)):
        encoded, one, encoder = made()
        encoded.fit(documents(1, options=options))
        encoded.arrays(one, [str(number) for number in range(3 * size)], "query")
        assert encoder.batch_sizes == {size}


def test_other_texts_are_encoded_once_as_queries_and_as_documents(monkeypatch) -> None:
    encoded, one, encoder = made()
    arrays = encoded.arrays(one, ["cat ", "dog", "cat "], "query")
    assert [array.tolist() for array in arrays] == [[[1, 0, 0]], [[0, 1, 0]], [[1, 0, 0]]]
    encoded.arrays(one, ["dog"], "query")
    assert encoded.text_rows(one, ["dog ", "cat dog"]).tolist() == [[0, 1, 0], [1, 1, 0]]
    assert encoder.calls == [("query", ["cat ", "dog"]), ("document", ["dog", "cat dog"])]
    # all are forgotten when there are too many
    monkeypatch.setattr(encoding, "MOST_KEPT", 5)
    encoded.arrays(one, ["cow"], "query")
    encoded.arrays(one, ["cow", "dog"], "query")
    assert len(encoder.calls) == 3
    encoded.arrays(one, ["rain"], "query")
    encoded.arrays(one, ["cow"], "query")
    assert encoder.calls[3:] == [("query", ["rain"]), ("query", ["cow"])]


@pytest.mark.parametrize(
    ("tail", "vectors"), [("pi@64", None), ("pi@64", 4), ("pcw@64", "window"), ("pcw@64:overlap=4", "window")]
)
def test_the_bytes_of_a_document_of_the_target_length_are_known_before_but_for_one_vector(
    folder: Path, tail, vectors
) -> None:
    model: Any = longembed.load(f"{folder}+{tail}", device="cpu")
    encoder, pooling = Encoder(lambda: model), Pooling(vectors)
    [[rows]] = encoder.encode([tiny.text(64 - 2)], "document", [pooling], Documents([], []))
    n_bytes = rows.rows.nbytes
    assert n_bytes <= encoder.document_bytes(pooling) <= n_bytes + (vectors == 4) * 32 * 4


@pytest.mark.parametrize(
    ("of_model", "described", "similarity"),
    [
        ("dot", "cosine", "dot"),
        (None, "dot", "dot"),
        (None, None, "cosine"),
        ("euclidean", None, "euclidean"),
    ],
)
def test_the_similarity_is_the_model_s_own_or_else_what_its_description_says(
    of_model, described, similarity
) -> None:
    encoder: Any = WordVectors()
    encoder.model = SimpleNamespace(similarity_fn_name=of_model)
    encoder.mteb_model_meta = SimpleNamespace(
        similarity_fn_name=described, name="me/words", revision=None, experiment_kwargs=None, max_tokens=None
    )
    of_mteb = MTEBEncoder(encoder)
    assert of_mteb.similarity == similarity
    assert not (of_mteb.is_scaled or of_mteb.cuts_windows) and of_mteb.family == "dense"
    encoded = Encoding(of_mteb)
    one = encoded.vectors(Pooling())
    assert encoded.vectors(Pooling()) is one and encoded.vectors(Pooling(late=True)) is not one


@pytest.mark.filterwarnings("ignore::UserWarning")  # mteb's of a prompt that it ignores
@pytest.mark.parametrize("name", ["document", "passage"])
def test_texts_have_the_prompts_that_the_model_itself_gives_them(name: str, tmp_path: Path) -> None:
    prompts = {"query": "query : ", name: "passage : "}
    loaded: Any = mteb.get_model(
        f"{tiny.saved('bert', tmp_path, tiny.CARD, prompts=prompts)}+pi@64", device="cpu"
    )
    encoded = Encoding(Encoder(lambda: loaded.model))
    texts = [tiny.text(20, 1), tiny.text(9, 2)]
    one = encoded.vectors(Pooling())
    same_vectors(
        unit(np.concatenate(encoded.arrays(one, texts, "document"))), loaded.model.encode_document(texts)
    )
    same_vectors(unit(np.concatenate(encoded.arrays(one, texts, "query"))), loaded.model.encode_query(texts))


def test_weights_are_of_the_first_corpus_also_after_a_call_that_failed(folder: Path, monkeypatch) -> None:
    loaded: Any = mteb.get_model(f"{folder}+pi@64", device="cpu")
    texts = [tiny.text(20, seed) for seed in range(6)]
    corpora = [Documents(list("abcdef"[:n]), texts[:n]) for n in (6, 3)]

    def failing(call: Any, documents: Documents) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(Encoder, "encode", Mock(side_effect=MemoryError))
            with pytest.raises(MemoryError):
                call(documents)

    def fitted(rule: Any, *, fails: bool = False) -> list[list[float]]:
        encoded = Encoding(Encoder(lambda: loaded.model))
        one = encoded.vectors(Pooling(weights=rule))
        if fails:
            failing(encoded.fit, corpora[0])
        encoded.fit(corpora[1])
        if fails:
            failing(encoded.add, corpora[0])
        encoded.add(corpora[0])
        return rows_of(one)

    want = fitted("idf")
    assert want != fitted(None)
    assert fitted("idf", fails=True) == want


def test_a_query_of_late_interaction_is_read_as_one_text_where_documents_have_windows(tmp_path: Path) -> None:
    model: Any = longembed.extend(tiny.late("bert", tmp_path), "pcw", 64)
    query = tiny.text(40)
    [[encoded]] = Encoder(lambda: model).encode([query], "query", [Pooling("window")], Documents([], []))
    same_vectors(encoded.rows, model.encode_query(query))


@pytest.mark.parametrize("tail", ["+pi@64:vectors=4", "+pi@64:vectors=4,query=tokens", "+pcw@64"])
def test_a_base_whose_second_module_is_no_pooling_has_neither_windows_nor_several_vectors(
    tail: str, tmp_path: Path
) -> None:
    inner = Transformer(str(tiny.transformer("bert", tmp_path / "transformer")))
    model = SentenceTransformer(modules=[inner, CNN(32, 32, [1]), StockPooling(32, "mean")], device="cpu")
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    (tmp_path / "model" / "README.md").write_text(tiny.CARD)
    with pytest.raises(
        IncompatibleError, match="need a Pooling as the base's second module, got CNN, Pooling"
    ):
        longembed.search(f"{tmp_path / 'model'}{tail}", device="cpu").add(["a"], [tiny.text(40, 1)])
