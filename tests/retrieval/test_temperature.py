"""The temperature of a corpus: which sentences stand for queries, and when it is found again."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.retrieval.temperature import Temperature, pseudo_queries
from mteb_longembed.retrieval.vectors import CorpusVectors


def test_128_sentences_are_sampled_with_a_fixed_seed() -> None:
    texts = ["one", "two", "three"]
    assert pseudo_queries(texts) == [texts[i] for i in np.random.default_rng(0).integers(3, size=128)]
    # a text that fits is read from its start, and its middle sentence is not cut
    assert pseudo_queries(["ab"]) == ["ab"] * 128
    assert set(pseudo_queries(["One. Two. Three. Four. Five."])) == {"Three."}
    assert pseudo_queries([" "]) == []


def test_2000_characters_of_a_longer_text_are_read_for_a_sentence() -> None:
    text = "a" * 2_000 + "b"
    assert set(pseudo_queries([text])) == {text[:2_000], text[1:]}


def test_they_are_compared_with_4096_vectors_of_the_corpus(folder: Path, monkeypatch) -> None:
    sampled: list[int] = []
    sample = CorpusVectors.sample
    monkeypatch.setattr(CorpusVectors, "sample", lambda self, n: sampled.append(n) or sample(self, n))
    searcher = longembed.search(f"{folder}+pi@64:fusion=bm25", device="cpu")
    searcher.add(["a", "b"], ["one text", "another text"])
    searcher.search("text")
    assert sampled == [4_096]


def test_a_temperature_that_is_set_is_never_found() -> None:
    find = Mock()
    assert Temperature(0.3).at(10**9, find) == 0.3
    find.assert_not_called()


@pytest.mark.parametrize(("made", "first"), [(Temperature(), 1), (Temperature(0.1, 5), 10)])
def test_it_is_found_with_the_first_documents_and_when_their_number_has_doubled(
    made: Temperature, first: int
) -> None:
    find = Mock(side_effect=[0.2, 0.4])
    if first > 1:
        assert made.at(first - 1, find) == 0.1
    for n_documents, temperature in ((first, 0.2), (2 * first - 1, 0.2), (2 * first, 0.4)):
        assert made.at(n_documents, find) == temperature
