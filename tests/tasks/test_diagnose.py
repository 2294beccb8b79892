"""A task's score by how much of each document may be read."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import InputError
from mteb_longembed.tasks import LongEmbedPasskey
from mteb_longembed.tasks.beir import beir_task
from mteb_longembed.tasks.cutting import Counter, counter_of
from mteb_longembed.tasks.data import find_task
from mteb_longembed.tasks.diagnose import answer_places, diagnose
from tests.own_data import beir
from tests.tiny import tokenizer

LENGTHS = (16, 64, 1024)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


class WordSearch:
    """An exact stand-in for a search model: the share of the query's words that a document has."""

    def __init__(self) -> None:
        self.mteb_model_meta = ModelMeta.create_empty({"name": "ours/word-search", "revision": "1"})
        self.longest_read: list[int] = []

    def index(self, corpus: Any, **kwargs: Any) -> None:
        self.texts = dict(zip(corpus["id"], corpus["text"], strict=True))
        self.longest_read.append(max(len(text.split()) for text in self.texts.values()))

    def search(self, queries: Any, *, top_k: int, **kwargs: Any) -> dict[str, dict[str, float]]:
        results = {}
        for query in queries:
            wanted = words(query["text"])
            scores = {name: len(wanted & words(text)) / len(wanted) for name, text in self.texts.items()}
            results[query["id"]] = dict(sorted(scores.items(), key=lambda item: -item[1])[:top_k])
        return results


WORDS = [f"word{i}" for i in range(20)]
PADDING = "and so on " * 30


def task_of(root: Path, texts: list[str], queries: list[str] = WORDS) -> Any:
    task = beir_task(beir(root, texts, queries))
    task.load_data()
    return task


def test_answers_at_the_beginning_need_no_long_documents(tmp_path: Path) -> None:
    found = diagnose(task_of(tmp_path, [f"{word} {PADDING}" for word in WORDS]), WordSearch(), LENGTHS)
    assert {length: score.mean for length, score in found.curve.items()} == {16: 100, 64: 100, 1024: 100}
    assert found.enough == 16


def test_answers_at_the_end_do_and_a_model_never_sees_more_than_was_asked_for(tmp_path: Path) -> None:
    model = WordSearch()
    found = diagnose(task_of(tmp_path, [f"{PADDING} {word}" for word in WORDS]), model, LENGTHS)
    # whole first; 1,024 tokens cut nothing, so need no second run
    assert model.longest_read == [91, 12, 48]
    assert found.curve[16] == found.curve[64] and found.curve[64].mean < 50
    assert found.curve[1024].mean == found.whole.mean == 100
    assert found.enough == 1024
    assert found.longest == round(91 / 0.75) and found.n_documents == 20
    assert found.longer == {16: 100, 64: 100, 1024: 0}
    assert diagnose(task_of(tmp_path / "b", [f"{PADDING} {w}" for w in WORDS]), model, (16,)).enough is None


def test_a_loaded_task_is_left_as_it_was() -> None:
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    task.load_data()
    texts = task.dataset["default"]["test_256"]["corpus"]["text"][:]
    ranks = task.k_values
    found = diagnose(task, WordSearch(), (64, 256))
    assert task.dataset["default"]["test_256"]["corpus"]["text"][:] == texts and task.k_values == ranks
    assert found.task == "LongEmbedPasskey"
    assert found.curve[64].mean < 70 < found.whole.mean


def test_answers_stand_where_passages_or_depths_say(tmp_path: Path) -> None:
    task = task_of(tmp_path, ["x" * 90, "y" * 90, "z" * 90], ["x", "y", "z"])
    passages = {"test": {"q0": {"d0": [(0, 3)]}, "q1": {"d1": [(10, 20)]}, "q2": {"d2": [(80, 90)]}}}
    found = diagnose(task, WordSearch(), (64,), passages)
    assert found.thirds == pytest.approx([200 / 3, 0, 100 / 3])
    assert diagnose(task, WordSearch(), (64,)).thirds == []
    generated = LongEmbedPasskey().filter_eval_splits(["test_256"])
    generated.load_data()
    assert len(answer_places(generated, {})) == 50


def test_nothing_is_read_from_or_written_to_mtebs_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "cache"))
    diagnose(task_of(tmp_path / "x", WORDS), WordSearch(), (16,))
    assert not (tmp_path / "cache").exists()


def test_a_task_that_is_unknown_or_has_no_documents_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown task 'NFCorpsu': did you mean 'NFCorpus'\? .* BEIR's"):
        find_task("NFCorpsu")


# ---- where a document is cut

TOKENIZER = tokenizer()
SOME_TEXT = st.text("abcdefgh .,:\n", max_size=200)


@given(SOME_TEXT, st.integers(1, 50))
def test_a_cut_text_has_the_tokens_asked_for(text: str, length: int) -> None:
    n_tokens, (end,) = Counter(TOKENIZER, "tiny").ends(text, [length])
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    assert n_tokens == len(ids)
    assert TOKENIZER(text[:end], add_special_tokens=False)["input_ids"] == ids[:length]
    if length >= n_tokens:
        assert end == len(text)


@given(SOME_TEXT, st.integers(1, 100))
def test_without_a_tokenizer_three_words_count_as_four_tokens(text: str, length: int) -> None:
    n_tokens, (end,) = Counter().ends(text, [length])
    words = text.split()
    assert n_tokens == round(len(words) / 0.75)
    assert text[:end].split() == words[: length * 3 // 4]


def test_the_tokenizer_of_a_wrapped_model_is_found() -> None:
    class Model:
        tokenizer = TOKENIZER

    class Wrapper:
        model = Model()

    assert counter_of(Wrapper(), "tiny").name == counter_of(Model(), "tiny").name == "tokens of tiny"
    assert counter_of(object(), "bm25").name == counter_of(None, "bm25").name == "words / 0.75"
