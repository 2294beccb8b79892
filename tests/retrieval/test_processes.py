"""One search in many threads and processes: each gets the documents that its questions find."""

import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mteb_longembed as longembed
from mteb_longembed.retrieval.searcher import Searcher
from tests import tiny

#: Analyzer, windows, and a fusion.
NAMES = ["bm25:window=20", "+pcw@64:size=16,vectors=window", "+pi@64:fusion=bm25"]
DOCUMENTS = {f"d{i}": f"{tiny.text(20 + 9 * i, i)}. Document {i}." for i in range(30)}
QUESTIONS = [tiny.text(6, seed) for seed in range(4)]


@pytest.fixture(params=NAMES)
def searcher(request, folder: Path) -> Searcher:
    """A search that knows its questions, so that no process has to encode one."""
    name = request.param
    made = longembed.search(name if name.startswith("bm25") else f"{folder}{name}", device="cpu")
    made.add(list(DOCUMENTS), list(DOCUMENTS.values()))
    made.search(QUESTIONS, k=4)
    return made


def answers(searcher: Searcher) -> list[list[tuple[str, str]]]:
    found = []
    for hits in searcher.search(QUESTIONS, k=4):
        assert all(DOCUMENTS[hit.id] == hit.document for hit in hits)
        found.append([(hit.id, hit.passage) for hit in hits])
    return found


def test_eight_threads_get_the_answers_of_one(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    want = answers(searcher)
    scores = searcher.scorer.scores
    busy = threading.Lock()

    def alone(queries: list[str]) -> object:
        assert busy.acquire(blocking=False), "two calls run at a time"
        time.sleep(0.01)
        busy.release()
        return scores(queries)

    monkeypatch.setattr(searcher.scorer, "scores", alone)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == want for found in pool.map(lambda _: answers(searcher), range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_get_the_answers_of_one(searcher: Searcher) -> None:
    want = answers(searcher)

    def ask() -> None:
        for _ in range(2):
            assert answers(searcher) == want

    children = [multiprocessing.get_context("fork").Process(target=ask) for _ in range(2)]
    for child in children:
        child.start()
    ask()
    for child in children:
        child.join(120)
        assert child.exitcode == 0


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
