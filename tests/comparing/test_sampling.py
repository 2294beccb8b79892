"""Queries drawn from documents; a sample of a corpus, whose results never mix with those of all documents."""

from pathlib import Path

import mteb
import pytest

from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.comparing.sampling import take_sample
from mteb_longembed.data.drawn_queries import draw_queries
from mteb_longembed.data.task import beir_task
from mteb_longembed.errors import DataError, InputError
from tests import tiny
from tests.comparing.conftest import compare
from tests.own_data import beir


def story(n: int, start: int = 0) -> str:
    numbers = range(start, n)
    return " ".join(f"Keeper number {i} walked past the old gate {i * 7} with lamp {i + 3}." for i in numbers)


def test_each_query_is_a_sentence_of_the_document_that_answers_it() -> None:
    corpus = {"a": story(10), "b": story(30, 20)}
    queries, answers = draw_queries(corpus)
    assert len(queries) == 2
    for name, text in queries.items():
        document = answers[name]
        assert text in corpus[document] and not any(text in corpus[d] for d in corpus if d != document)


def test_near_duplicates_are_left_out() -> None:
    copy = story(10) + " One more sentence stands here at the very end."
    _, answers = draw_queries({"a": story(10), "copy": copy, "b": story(30, 20)})
    assert list(answers.values()) == ["b"]


def test_the_draw_is_the_same_for_the_same_seed() -> None:
    corpus = {str(i): story(10 * i + 10, 10 * i) for i in range(8)}
    assert draw_queries(corpus, 4) == draw_queries(corpus, 4) != draw_queries(corpus, 4, seed=1)
    assert len(draw_queries(corpus, 4)[0]) == 4


def test_documents_without_a_sentence_say_so() -> None:
    with pytest.raises(DataError, match="none of the 2 documents has one"):
        draw_queries({"a": "too short.", "b": ""})


# ---- a sample -------------------------------------------------------------------------------------------


def folder(root: Path) -> Path:
    """40 documents and two queries, each the beginning of one; d2 and d3 repeat much of what d0 and d1 say."""
    texts = [tiny.text(40, seed) for seed in range(40)]
    texts[2:4] = [f"{texts[0][:80]} {texts[2]}", f"{texts[1][:80]} {texts[3]}"]
    return beir(root, texts, [text[:80] for text in texts[:2]])


def kept(root: Path, n: int, seed: int = 0) -> list[str]:
    task = beir_task(root)
    take_sample(task, n, seed)
    return task.dataset["default"]["test"]["corpus"]["id"][:]


def test_judged_documents_stay_then_hard_ones_then_drawn_ones(tmp_path) -> None:
    root = folder(tmp_path)
    drawn = [kept(root, 6, seed) for seed in range(4)]
    assert all(len(names) == 6 and {"d0", "d1", "d2", "d3"} < set(names) for names in drawn)
    assert len(set(map(tuple, drawn))) > 1 and kept(root, 6) == drawn[0]
    assert kept(root, 2) == ["d0", "d1"] and len(kept(root, 40)) == 40
    with pytest.raises(InputError, match=r"^--sample must be at least 2 documents, the judged .* got 1\.$"):
        kept(root, 1)


def test_a_sample_and_all_documents_never_share_a_result_and_the_sample_is_said(tmp_path) -> None:
    root = folder(tmp_path)
    lines: list[str] = []
    sizes: dict[int | None, tuple[str, str, set[str]]] = {}
    for n in (6, None):
        task = beir_task(root)
        comparison = compare([Candidate(BM25, "")], task, tmp_path, sample=n, on_message=lines.append)
        rankings = Evaluations(tmp_path).rankings(mteb.get_model_meta(BM25), task, "test")
        sizes[n] = (comparison.identity, task.metadata.name, set(rankings["default"]["q0"]))
    assert sum("a sample of 6 of 40 documents: scores are higher than on all" in text for text in lines) == 1
    assert sizes[6][0] != sizes[None][0] and sizes[6][1] == f"{sizes[None][1]}-sample6"
    assert len(sizes[6][2]) <= 6 < len(sizes[None][2])
