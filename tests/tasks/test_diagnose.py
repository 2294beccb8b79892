"""A task's score by how much of each document may be read."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mteb.models.model_meta import ModelMeta

from mteb_longembed.errors import InputError, ModelError
from mteb_longembed.tasks import LongEmbedPasskey
from mteb_longembed.tasks.cutting import Counter, counter_of
from mteb_longembed.tasks.data import find_task
from mteb_longembed.tasks.diagnose import diagnose
from tests.own_data import beir
from tests.tiny import saved, sentence_transformer, tokenizer
from tests.tiny import text as some_text

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


def test_answers_at_the_beginning_need_no_long_context_whatever_the_model(tmp_path: Path) -> None:
    folder = beir(tmp_path / "early", [f"{w} {PADDING}" for w in WORDS], WORDS)
    one, two = WordSearch(), WordSearch()
    two.mteb_model_meta = two.mteb_model_meta.model_copy(update={"name": "ours/other"})
    diagnosis = diagnose(str(folder), [one, two], LENGTHS)
    curve = diagnosis.curves["ours/word-search"]
    assert curve == diagnosis.curves["ours/other"]
    assert {length: score.mean for length, score in curve.items()} == {16: 100, 64: 100, 1024: 100}
    assert diagnosis.enough("ours/word-search") == 16 and diagnosis.counted == []


def test_queries_that_are_not_scored_are_counted(tmp_path: Path) -> None:
    root = beir(tmp_path / "some", WORDS, WORDS)
    (root / "qrels" / "test.tsv").write_text("q0\td0\t1\n")
    diagnosis = diagnose(str(root), [WordSearch()], (16,))
    assert diagnosis.counted == ["test.tsv: 19 of 20 queries have no relevant document and are not scored."]


def test_answers_at_the_end_do_and_a_model_never_sees_more_than_was_asked_for(tmp_path: Path) -> None:
    root, model = beir(tmp_path / "late", [f"{PADDING} {w}" for w in WORDS], WORDS), WordSearch()
    diagnosis = diagnose(str(root), [model], LENGTHS)
    # whole first; 1,024 tokens cut nothing, so need no second run
    assert model.longest_read == [91, 12, 48]
    curve = diagnosis.curves["ours/word-search"]
    assert curve[16] == curve[64] and curve[64].mean < 50
    assert curve[1024].mean == diagnosis.uncut["ours/word-search"].mean == 100
    assert diagnosis.enough("ours/word-search") == 1024
    assert diagnosis.document_lens == [round(91 / 0.75)] * 20
    assert diagnosis.longer_than(64) == 100
    assert diagnosis.longer_than(1024) == 0


def test_a_loaded_task_is_left_as_it_was() -> None:
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    task.load_data()
    texts = task.dataset["default"]["test_256"]["corpus"]["text"][:]
    diagnosis = diagnose(task, [WordSearch()], (64, 256), splits=["test_256"])
    assert task.dataset["default"]["test_256"]["corpus"]["text"][:] == texts
    assert diagnosis.task == "LongEmbedPasskey"
    assert diagnosis.score == "nDCG@1"
    assert diagnosis.curves["ours/word-search"][64].mean < 70 < diagnosis.uncut["ours/word-search"].mean


def test_a_dense_model_is_cut_by_its_own_tokenizer(tmp_path: Path) -> None:
    folder = beir(tmp_path / "data", ["aa ab ac ad ae af"] * 3 + ["aa"], ["aa"] * 4)
    diagnosis = diagnose(str(folder), [sentence_transformer("bert", tmp_path / "model")], (4,))
    assert diagnosis.document_lens == [6, 6, 6, 1]
    assert next(iter(diagnosis.counted_by.values())).startswith("tokens of ")


def test_what_a_model_reads_at_most_is_not_called_whole_documents(tmp_path: Path) -> None:
    name = f"{saved('bert', tmp_path / 'base')}+none"
    texts = [some_text(n, n) for n in (5, 30, 60)]
    diagnosis = diagnose(str(beir(tmp_path / "data", texts, [t[:9] for t in texts])), [name], (4, 16, 32))
    assert diagnosis.stops_at == {name: 16} and set(diagnosis.curves[name]) == {4, 16}
    short = diagnose(str(beir(tmp_path / "short", texts[:1], ["a"])), [name], (4, 32))
    assert not short.stops_at and set(short.curves[name]) == {4, 32}
    reading = f"{name}:past_target=read"
    assert not diagnose(str(tmp_path / "data"), [reading], (4, 32)).stops_at


def test_nothing_is_read_from_or_written_to_mtebs_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "cache"))
    diagnose(str(beir(tmp_path / "x", WORDS, WORDS)), [WordSearch()], (16,))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("lengths", [(), (0, 5), (-1,)])
def test_lengths_below_one_token_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="lengths must be whole numbers of at least 1 token, got"):
        diagnose("LongEmbedPasskey", lengths=lengths)


def test_a_task_that_is_unknown_or_has_no_documents_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown task 'NFCorpsu': did you mean 'NFCorpus'\? .* BEIR's"):
        find_task("NFCorpsu")
    with pytest.raises(InputError, match=r"text retrieval task, got Banking77Classification, which is Class"):
        diagnose("Banking77Classification", [WordSearch()])


def test_a_model_without_its_packages_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    missing = staticmethod(lambda groups: ["bm25s>=0.2"])
    monkeypatch.setattr("mteb.models.model_meta.ModelMeta._missing_dependencies", missing)
    with pytest.raises(ModelError, match=r"(?s)missing required dependencies: bm25s.*pip install"):
        diagnose(str(beir(tmp_path, WORDS, WORDS)))


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
