"""Scores and passages of vectors, for models that are not ours."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mteb
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

import mteb_longembed as longembed
from mteb_longembed.encoders.method import Method
from mteb_longembed.errors import InputError
from mteb_longembed.names import Identity
from mteb_longembed.retrieval.encoder import Encoded, Encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.mteb_models import MTEBEncoder
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.retrieval.vectors import CorpusVectors
from tests import tiny
from tests.encoders.test_adapt import slow_whitening
from tests.limits import same_vectors
from tests.retrieval.indexes import index_of, saved, vectors_of


class WordCounts:
    """An encoder of mteb's that knows two words. A text without them has the vector zero."""

    mteb_model_meta = mteb.get_model_meta("sentence-transformers/all-MiniLM-L6-v2")

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        texts = [text.lower() for batch in inputs for text in batch["text"]]
        return np.array([[text.count("cat"), text.count("dog")] for text in texts], np.float32)


def test_a_window_with_the_vector_zero_is_a_passage_like_others() -> None:
    encoder = WordCounts()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    text = "A cat, a cat. " * 35 + "Rain and wind. " * 60 + "A dog, a dog. " * 35
    scorer.fit(Documents(["a"], [text]))
    (((start, end),),) = scorer.passages(["dog"], [[0]])
    assert "dog" in text[start:end] and "cat" not in text[start:end]


def test_the_better_one_of_two_short_windows_is_shown_and_one_alone_as_it_is() -> None:
    encoder = WordCounts()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    texts = ["A cat, a cat. " * 30 + "A dog, a dog. " * 30, "A dog."]
    scorer.fit(Documents(["a", "b"], texts))
    [(of_cat, _), (of_dog, short)] = scorer.passages(["cat", "dog"], [[0, 1], [0, 1]])
    assert of_cat[0] == 0 < of_dog[0] and "cat" not in texts[0][slice(*of_dog)]
    assert short == (0, 6)


#: Documents of one to four sentences, of which some have no word that the encoder knows.
TEXTS = [
    "Cat. Dog dog cat. Rain.",
    "A dog and a cat and a cat.",
    "Rain. Wind.",
    "Dog. Cat dog dog dog. Cat cat dog. Cow dog.",
    "Cow cow cat dog. Cat.",
    "Cow. Dog cow.",
]
ASKED = ["cat cat dog", "cow", "rain"]


class WordVectors(WordCounts):
    """An encoder of mteb's that knows three words."""

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        texts = [text.lower() for batch in inputs for text in batch["text"]]
        return np.array([[text.count(word) for word in ("cat", "dog", "cow")] for text in texts], np.float32)


class Products(WordVectors):
    """Vectors that are compared by their product."""

    model = SimpleNamespace(similarity_fn_name="dot")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w[^.]*\.", text)]


class BySentence(MTEBEncoder):
    """A text encoder with a vector for each sentence of a document."""

    has_several_vectors = True

    def encode(
        self, texts: Any, role: Any, poolings: Any, documents: Documents, **_: Any
    ) -> list[list[Encoded]]:
        if role != "document":
            return super().encode(texts, role, poolings, documents)
        encoded = []
        for text in texts:
            spans = sentence_spans(text)
            encoded.append(Encoded(counts_of([text[slice(*span)] for span in spans]), np.array(spans)))
        return [encoded] * len(poolings)


def counts_of(texts: Sequence[str]) -> np.ndarray:
    return WordVectors().encode([{"text": texts}]).astype(float)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def slow_cosines(texts: Sequence[str], power: float | None, fitted_on: Sequence[str]) -> list[np.ndarray]:
    """The cosine of each query with each sentence of each text, `[queries, sentences]`."""
    mean, matrix = np.zeros(3), np.eye(3)
    if power is not None:
        sentences = [text[slice(*span)] for text in fitted_on for span in sentence_spans(text)]
        mean, matrix = slow_whitening(counts_of(sentences), power)
    asked = unit((counts_of(ASKED) - mean) @ matrix)
    found = []
    for text in texts:
        own = counts_of([text[slice(*span)] for span in sentence_spans(text)])
        found.append(asked @ unit((own - mean) @ matrix).T)
    return found


@pytest.mark.parametrize("power", [None, 0.5])
@pytest.mark.parametrize("score", [None, "softmax"])
def test_chunks_score_by_their_cosine_also_when_documents_are_added_and_left_out(power, score) -> None:
    # whitened vectors are compared by the cosine whatever the model's measure is
    encoder = WordVectors() if power is None else Products()
    settings = Method("m", whiten=power, score=score, temperature=0.05 if score else None)
    scorer = index_of(Encoding(BySentence(encoder)), None, settings)

    def check(numbers: list[int]) -> None:
        texts = [TEXTS[number] for number in numbers]
        of_texts = slow_cosines(texts, power, TEXTS[:5])  # the map stays
        want = [cosines.max(axis=1) for cosines in of_texts]
        if score:
            want = [0.05 * np.log(np.exp(cosines / 0.05).mean(axis=1)) for cosines in of_texts]
        assert scorer.scores(ASKED) == pytest.approx(np.stack(want, axis=1), abs=1e-4)
        shown = scorer.passages(ASKED, [list(range(len(texts)))] * len(ASKED))
        assert len(shown) == len(ASKED)
        for row, spans in enumerate(shown):
            for text, span, cosines in zip(texts, spans, of_texts, strict=True):
                best = cosines[row, sentence_spans(text).index(span)]
                assert best == pytest.approx(cosines[row].max(), abs=1e-4)

    scorer.fit(Documents(list("abcde"), TEXTS[:5]))
    check([0, 1, 2, 3, 4])
    scorer.add(Documents(list("abcdef"), TEXTS))
    check([0, 1, 2, 3, 4, 5])
    scorer.keep(Documents(list("bdf"), [TEXTS[1], TEXTS[3], TEXTS[5]]), np.array([0, 1, 0, 1, 0, 1], bool))
    check([1, 3, 5])
    scorer.add(Documents(list("bdfa"), [TEXTS[1], TEXTS[3], TEXTS[5], TEXTS[0]]))
    check([1, 3, 5, 0])


def test_a_short_text_scores_as_its_cosine_with_the_query() -> None:
    encoder = WordVectors()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    scorer.fit(Documents(["a"], ["Cat."]))
    found = vectors_of(scorer).text_scores("cat dog", ["Cat.", "Dog cat cat.", "Cow.", "Rain."])
    assert found == pytest.approx([0.5**0.5, 3 / 10**0.5, 0, 0], abs=1e-6)
    assert scorer.scores([]).shape == (0, 1)


def test_vectors_of_a_model_with_the_dot_product_are_not_scaled() -> None:
    encoder = Products()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    scorer.fit(Documents(list("abcdef"), TEXTS))
    assert scorer.scores(ASKED).tolist() == (counts_of(ASKED) @ counts_of(TEXTS).T).tolist()


def test_each_sentence_of_a_query_is_searched_on_its_own_where_the_settings_say_so() -> None:
    encoder = WordVectors()
    whole, parts = (
        index_of(Encoding(MTEBEncoder(encoder)), None, Method("m", query=query))
        for query in (None, "sentences")
    )
    for scorer in (whole, parts):
        scorer.fit(Documents(list("abcdef"), TEXTS))
    want = whole.scores(["Cat cat.", "Cow?"]).mean(axis=0)
    assert parts.scores(["Cat cat. Cow?"])[0] == pytest.approx(want, abs=1e-6)
    assert whole.scores(["Cat cat. Cow?"])[0] != pytest.approx(want, abs=1e-2)


def test_a_scorer_knows_only_the_documents_of_its_last_fit_and_says_if_there_was_none() -> None:
    encoder = WordVectors()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    with pytest.raises(
        InputError, match=r"^search needs an indexed corpus: call fit with documents first\.$"
    ):
        scorer.scores(ASKED)
    for texts in (TEXTS, TEXTS[:1:-1]):
        scorer.fit(Documents(list(map(str, range(len(texts)))), texts))
        want = unit(counts_of(ASKED)) @ unit(counts_of(texts)).T
        assert scorer.scores(ASKED) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("vectors", ["window", 4])
def test_vectors_that_are_pooled_from_a_shared_pass_score_as_in_a_search_of_their_own(
    similarity, vectors, tmp_path: Path
) -> None:
    inner = Transformer(str(tiny.transformer("bert", tmp_path / "transformer")))
    modules = [inner, Pooling(32, "mean")]  # without Normalize
    model = SentenceTransformer(modules=modules, device="cpu", similarity_fn_name=similarity)
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    (tmp_path / "model" / "README.md").write_text(tiny.CARD)
    name = f"{tmp_path / 'model'}+pcw@64"
    documents = {f"d{i}": tiny.text(5 + 9 * i, i) for i in range(6)}
    searcher = longembed.search(f"{name}:vectors={vectors}", device="cpu")
    searcher.add(list(documents), list(documents.values()))
    shared = mteb.get_model(name, device="cpu")
    scorer = index_of(Encoding(Encoder(lambda: shared.model)), vectors, Method("m"))
    scorer.fit(Documents(list(documents), list(documents.values())))
    query = [tiny.text(6, 3)]
    same_vectors(scorer.scores(query), searcher.scorer.scores(query))


@pytest.mark.parametrize("power", [None, 0.5])
@pytest.mark.parametrize("score", [None, "softmax"])
def test_an_opened_scorer_has_the_map_and_the_temperature_and_measures_no_vector_again(
    power, score, tmp_path: Path, monkeypatch
) -> None:
    encoder = WordVectors()
    settings = Method("m", whiten=power, score=score)
    scorer, opened = (index_of(Encoding(BySentence(encoder)), None, settings) for _ in range(2))
    before, after = Documents(list("abcde"), TEXTS[:5]), Documents(list("abcdef"), TEXTS)
    scorer.fit(Documents(list("abcd"), TEXTS[:4]))
    scorer.scores(ASKED)
    scorer.add(before)
    opened.restore(saved(scorer, tmp_path), before)
    with monkeypatch.context() as patched:
        patched.setattr(CorpusVectors, "blocks", lambda *_: pytest.fail("vectors are measured again"))
        assert opened.passages(ASKED, [[3, 0]] * 3) == scorer.passages(ASKED, [[3, 0]] * 3)
    for documents in (before, after):
        for one in (scorer, opened):
            one.add(documents)
        assert opened.scores(ASKED).tolist() == scorer.scores(ASKED).tolist()


def test_vectors_that_are_compared_by_their_product_are_not_measured(monkeypatch) -> None:
    encoder = Products()
    scorer = index_of(Encoding(BySentence(encoder)), None, Method("m"))
    scorer.fit(Documents(["a"], TEXTS[3:4]))
    monkeypatch.setattr(CorpusVectors, "blocks", lambda *_: pytest.fail("vectors are measured"))
    assert scorer.passages(["dog"], [[0]]) == [[(5, 21)]]


def test_a_model_whose_tokenizer_has_no_offsets_shows_whole_documents(folder: Path, monkeypatch) -> None:
    searcher = longembed.search(f"{folder}+pi@64:vectors=4", device="cpu")
    monkeypatch.setattr(type(searcher.index.shown.encoding.encoder.model.tokenizer), "is_fast", False)
    searcher.add(["a", "b"], [tiny.text(40, 1), tiny.text(3, 2)])
    query = tiny.text(40, 1)[-11:]  # the last vector is the best one
    assert [hit.passage == hit.document for hit in searcher.search(query)] == [True, True]


# ---- the temperature ----------------------------------------------------------------------------------------

FEW = ["A cat.", "A dog.", "A cat, a dog.", "A dog, a dog.", "Rain.", "A cat, a cat."]


class Counting(VectorScorer):
    """Vectors whose temperature is the number of documents on which it was estimated."""

    n_estimates = 0

    def _spread(self, queries: Sequence[str]) -> float:
        self.n_estimates += 1
        return float(len(self._vectors))


def counting(settings: Method) -> Index:
    return Index(
        Identity("org/vectors", "1"), [Counting(Encoding(MTEBEncoder(WordCounts())), None, settings)]
    )


def n_estimates(index: Index) -> int:
    counted = vectors_of(index)
    assert isinstance(counted, Counting)
    return counted.n_estimates


def documents(n: int) -> Documents:
    return Documents(list("abcdef"[:n]), FEW[:n])


def test_an_opened_scorer_goes_on_with_the_temperature_and_its_number_of_documents(tmp_path: Path) -> None:
    settings = Method("m", fusion="bm25")
    scorer = counting(settings)
    scorer.fit(documents(3))
    assert vectors_of(scorer).temperature == 3
    scorer.add(documents(5))
    opened = counting(settings)
    opened.restore(saved(scorer, tmp_path), documents(5))
    assert vectors_of(opened).temperature == 3
    opened.add(documents(6))
    assert vectors_of(opened).temperature == 6 and n_estimates(opened) == 1


def test_a_temperature_that_is_set_stays_in_an_opened_scorer(tmp_path: Path) -> None:
    settings = Method("m", fusion="bm25", temperature=0.25)
    scorer = counting(settings)
    scorer.fit(documents(2))
    opened = counting(settings)
    opened.restore(saved(scorer, tmp_path), documents(2))
    opened.add(documents(6))
    assert vectors_of(opened).temperature == 0.25
    assert (n_estimates(opened), n_estimates(scorer)) == (0, 0)


@pytest.mark.parametrize(("fusion", "is_late"), [(None, False), ("bm25", True)])
def test_no_temperature_is_estimated_to_save_a_scorer_that_needs_none(
    fusion, is_late, tmp_path: Path
) -> None:
    settings = Method("m", fusion=fusion, vectors=4 if is_late else None, query="tokens" if is_late else None)
    scorer = counting(settings)
    scorer.fit(documents(3))
    reader = saved(scorer, tmp_path)
    assert n_estimates(scorer) == 0 and not any("temperature" in name for name in reader.settings)
    opened = counting(settings)
    opened.restore(reader, documents(3))
    assert opened.scores(["cat"]).shape == (1, 3)


# ---- passages -----------------------------------------------------------------------------------------------


class Noting(WordCounts):
    """An encoder that notes the texts of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, inputs: Any, **options: Any) -> np.ndarray:
        batches = list(inputs)
        self.calls.append([text for batch in batches for text in batch["text"]])
        return super().encode(batches, **options)


def test_windows_are_encoded_once_in_one_call_and_only_of_documents_with_several() -> None:
    encoder = Noting()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    sentences = {word: f"{word * 160}, a {word}. " for word in ("Cat", "Dog", "Cow", "Ant")}
    texts = [sentences["Cat"] + sentences["Dog"], "A dog.", sentences["Cow"] + sentences["Ant"]]
    scorer.fit(Documents(["a", "b", "c"], texts))
    encoder.calls.clear()
    shown = scorer.passages(["dog"], [[0, 1, 2]])
    assert [len(spans) for spans in shown] == [3]
    assert [sorted(call) for call in encoder.calls] == [
        sorted(sentence.strip() for sentence in sentences.values()),
        ["dog"],
    ]
    assert scorer.passages(["dog"], [[2, 0]]) == [[shown[0][2], shown[0][0]]] and len(encoder.calls) == 2


@pytest.mark.parametrize(("text", "finds_windows"), [(" \n\t ", True), ("A dog. " * 200, False)])
def test_a_blank_document_and_one_of_a_search_without_passages_are_shown_whole(text, finds_windows) -> None:
    encoder = Noting()
    scorer = index_of(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    vectors_of(scorer).finds_windows = finds_windows
    scorer.fit(Documents(["a"], [text]))
    assert scorer.passages(["dog"], [[0]]) == [[(0, len(text))]]
    assert len(encoder.calls) == 1
