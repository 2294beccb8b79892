"""One search in many threads and processes: each gets the documents that its questions find."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mteb_longembed as longembed
from mteb_longembed.retrieval.searcher import Searcher
from tests import tiny

#: Words, windows, and a fusion.
NAMES = ["bm25:window=20", "+pcw@64:size=16,vectors=window", "+pi@64:fuse=words"]
DOCUMENTS = {f"d{i}": f"{tiny.text(20 + 9 * i, i)}. Document {i}." for i in range(30)}
QUESTIONS = [tiny.text(6, seed) for seed in range(8)]


@pytest.fixture(params=NAMES)
def searcher(request, folder: Path) -> Searcher:
    """A search that knows its questions, so that no process has to encode one."""
    name = request.param
    made = longembed.search(name if name.startswith("bm25") else f"{folder}{name}", device="cpu")
    made.add(list(DOCUMENTS), list(DOCUMENTS.values()))
    made.search(QUESTIONS, k=4)
    return made


def answers(searcher: Searcher) -> list[list[tuple[str, str, str]]]:
    hits = searcher.search(QUESTIONS, k=4)
    return [[(hit.id, hit.passage, hit.document) for hit in of_question] for of_question in hits]


def wrong(searcher: Searcher, want: object, rounds: int) -> int:
    """How many answers differ, or show another document's text."""
    n_wrong = 0
    for _ in range(rounds):
        found = answers(searcher)
        texts = [DOCUMENTS[key] == text for hits in found for key, _, text in hits]
        n_wrong += found != want or not all(texts)
    return n_wrong


def test_eight_threads_get_the_answers_of_one(searcher: Searcher) -> None:
    want = answers(searcher)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: wrong(searcher, want, 1), range(12))) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_get_the_answers_of_one(searcher: Searcher) -> None:
    want = answers(searcher)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def ask() -> None:
        results.put(wrong(searcher, want, 4))

    children = [context.Process(target=ask) for _ in range(3)]
    for child in children:
        child.start()
    here = wrong(searcher, want, 4)
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    assert [here, *(results.get() for _ in children)] == [0, 0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_forked_process_adds_changes_no_other(folder: Path) -> None:
    made = longembed.search("bm25")
    made.add(list(DOCUMENTS), list(DOCUMENTS.values()))
    child = multiprocessing.get_context("fork").Process(target=made.add, args=(["new"], ["lighthouse"]))
    child.start()
    child.join(60)
    made.add(["other"], ["beacon"])
    assert child.exitcode == 0 and made.search("lighthouse") == []
    assert made.search("beacon")[0].document == "beacon"
