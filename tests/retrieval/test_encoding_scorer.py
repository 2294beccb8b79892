"""What the scorers of vectors have in common: short windows as passages, and a temperature that is saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.encoding_scorer import EncodingScorer
from mteb_longembed.retrieval.mteb_models import MTEBEncoder
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.storage import Reader, Writer
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from tests.retrieval.test_vector_scorer import WordCounts

TEXTS = ["A cat.", "A dog.", "A cat, a dog.", "A dog, a dog.", "Rain.", "A cat, a cat."]


class Counting(EncodingScorer):
    """A scorer whose temperature is the number of documents on which it was estimated."""

    n_estimates = 0

    def _scores(self, queries: Sequence[str]) -> np.ndarray:
        return np.zeros((len(queries), len(self._vectors)), np.float32)

    def _spread(self, queries: Sequence[str]) -> float:
        self.n_estimates += 1
        return float(len(self._vectors))

    def text_scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        return np.zeros(len(texts))


class LateCounting(Counting):
    """The same for queries of several vectors, whose scores are not divided."""

    is_late = True


def counting(settings: Method, made: type[Counting] = Counting) -> Counting:
    encoder = WordCounts()
    encoded = Encoding(MTEBEncoder(encoder))
    return made(encoded, encoded.vectors(Pooling()), settings)


def documents(n: int) -> Documents:
    return Documents(list("abcdef"[:n]), TEXTS[:n])


def saved(scorer: EncodingScorer, folder: Path) -> Reader:
    writer = Writer(folder, None)
    scorer.save(writer)
    about = {
        "name": "",
        "revision": None,
        "versions": {},
        "documents": 1,
        "empty": [],
        "language": "eng-Latn",
    }
    return writer.commit(**about)


def test_an_opened_scorer_goes_on_with_the_temperature_and_its_number_of_documents(tmp_path: Path) -> None:
    settings = Method("m", fusion="bm25")
    scorer = counting(settings)
    scorer.fit(documents(3))
    assert scorer.temperature == 3
    scorer.add(documents(5))
    opened = counting(settings)
    opened.restore(saved(scorer, tmp_path), documents(5))
    assert opened.temperature == 3
    opened.add(documents(6))
    assert opened.temperature == 6 and opened.n_estimates == 1


def test_a_temperature_that_is_set_stays_in_an_opened_scorer(tmp_path: Path) -> None:
    settings = Method("m", fusion="bm25", temperature=0.25)
    scorer = counting(settings)
    scorer.fit(documents(2))
    opened = counting(settings)
    opened.restore(saved(scorer, tmp_path), documents(2))
    opened.add(documents(6))
    assert (opened.temperature, opened.n_estimates, scorer.n_estimates) == (0.25, 0, 0)


@pytest.mark.parametrize(("fusion", "made"), [(None, Counting), ("bm25", LateCounting)])
def test_no_temperature_is_estimated_to_save_a_scorer_that_needs_none(fusion, made, tmp_path: Path) -> None:
    settings = Method("m", fusion=fusion)
    scorer = counting(settings, made)
    scorer.fit(documents(3))
    reader = saved(scorer, tmp_path)
    assert scorer.n_estimates == 0 and not any("temperature" in name for name in reader.settings)
    opened = counting(settings, made)
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
    scorer = VectorScorer(Encoding(MTEBEncoder(encoder)), None, Method("m"))
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
    scorer = VectorScorer(Encoding(MTEBEncoder(encoder)), None, Method("m"))
    scorer.finds_windows = finds_windows
    scorer.fit(Documents(["a"], [text]))
    assert scorer.passages(["dog"], [[0]]) == [[(0, len(text))]]
    assert len(encoder.calls) == 1
