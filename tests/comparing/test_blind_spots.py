"""What the numbers cannot see is said where it is so, and not elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from mteb_longembed.comparing.blind_spots import (
    identical_queries,
    repeated_documents,
    short_documents,
    ties,
    unknown_tokens,
)
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.data.task import beir_task
from tests.comparing.conftest import compare
from tests.comparing.frames import frame, row
from tests.own_data import beir

BASE = row("org/mine+none@512", 50, base=True)


def task(folder: Path, documents: list[str], queries: list[str]):
    made = beir_task(beir(folder, documents, queries))
    made.load_data()
    return made


@pytest.mark.parametrize(("longest", "is_said"), [(512, True), (513, False)])
def test_documents_that_all_fit_the_window_are_called_short(longest, is_said) -> None:
    rows = [replace(BASE, cost=replace(BASE.cost, longest=longest)), row("org/mine+ntk@4096", 40)]
    sentences = short_documents(rows)
    assert bool(sentences) == is_said
    assert all("the longest has 512 tokens, and base reads 512" in sentence for sentence in sentences)


def test_queries_that_are_documents_are_counted(tmp_path) -> None:
    texts = [f"word{i} and more" for i in range(4)]
    root = beir(tmp_path / "a", texts, texts)
    queries = root / "queries.jsonl"
    queries.write_text(queries.read_text().replace('"q0"', '"d0"').replace('"q1"', '"d1"'))
    qrels = root / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text().replace("q0\t", "d0\t").replace("q1\t", "d1\t"))
    made = beir_task(root)
    made.load_data()
    (sentence,) = identical_queries([made])
    assert sentence.startswith("2 of 4 queries are documents too") and "--ignore-identical-ids" in sentence
    assert not identical_queries([task(tmp_path / "b", texts, texts)])  # the same texts under other ids


def test_documents_with_the_same_text_are_counted(tmp_path) -> None:
    (sentence,) = repeated_documents([task(tmp_path / "a", ["one", "one", "two"], ["one", "one", "two"])])
    assert sentence.startswith("2 of 3 documents have the same text")
    assert not repeated_documents([task(tmp_path / "b", ["one", "two"], ["one", "two"])])


def test_queries_that_equal_scores_decide_are_counted() -> None:
    candidate = Candidate("org/mine+none@512", "org/mine", is_base=True)
    scores = {candidate: {("A", "test"): {f"q{i}": 0.5 for i in range(8)}}}
    (sentence,) = ties(frame(scores, tied=3), [BASE])
    assert "3 of 8 queries" in sentence and "mean over all orders" in sentence
    assert not ties(frame(scores), [BASE])


@pytest.mark.parametrize(("share", "is_said"), [(0.9, True), (0.01, False)])
def test_tokens_that_a_tokenizer_does_not_know_are_said(share, is_said) -> None:
    rows = [replace(BASE, cost=replace(BASE.cost, share_unknown=share))]
    assert bool(unknown_tokens(rows)) == is_said
    assert all("does not know 90 % of the documents' tokens" in sentence for sentence in unknown_tokens(rows))


def test_unknown_tokens_count_as_not_read(base, tmp_path) -> None:
    known = "aa ab ac ad"
    made = task(tmp_path / "data", [known, "漢字 漢字 漢字 漢字"], [known, known])
    result = compare([Candidate(f"{base}+none@16", base, True, 16, 16)], made, tmp_path / "out")
    cost = result.rows[0].cost
    assert cost.share_unknown > 0.3 and cost.share_read == pytest.approx(1 - cost.share_unknown)
    assert any("does not know" in sentence for sentence in result.cautions)


def test_new_ids_do_not_change_the_score_of_documents_with_equal_text(base, tmp_path) -> None:
    """Contracts with one preamble: a model that reads only that gives all of them the same vector."""
    preamble = "aa ab ac ad " * 8
    texts = [f"{preamble}{word}" for word in ("ba", "bb", "bc", "bd")]
    scores = []
    for names in ("abcd", "dcba"):
        root = beir(tmp_path / names, texts, [texts[0]])
        for path in (root / "corpus.jsonl", root / "qrels" / "test.tsv"):
            text = path.read_text()
            for index, letter in enumerate(names):
                text = text.replace(f"d{index}", f"x{letter}")
            path.write_text(text)
        made = beir_task(root)
        candidates = [Candidate(f"{base}+none@16", base, True, 16, 16)]
        result = compare(candidates, made, tmp_path / f"out-{names}", metric=["nDCG@1"])
        scores.append(result.rows[0].score.mean)
        assert any("equal scores" in sentence for sentence in result.cautions)
    assert scores == [pytest.approx(25), pytest.approx(25)]


def test_a_document_with_the_id_of_the_query_can_be_left_out(base, tmp_path) -> None:
    texts = [f"{word} ab ac" for word in ("ba", "bb", "bc")]
    root = beir(tmp_path / "data", texts, texts)
    queries = root / "queries.jsonl"
    queries.write_text(queries.read_text().replace('"q', '"d'))
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nd0\td1\t1\nd1\td2\t1\nd2\td0\t1\n")
    candidates = [Candidate(f"{base}+none@16", base, True, 16, 16)]
    options = {"metric": ["nDCG@1"]}
    plain = compare(candidates, beir_task(root), tmp_path / "out", **options)
    ruled = compare(candidates, beir_task(root), tmp_path / "out", ignore_identical_ids=True, **options)
    assert plain.rows[0].score.mean == 0 < ruled.rows[0].score.mean
    assert any("--ignore-identical-ids" in sentence for sentence in plain.cautions)
    assert not any("--ignore-identical-ids" in sentence for sentence in ruled.cautions)
