"""Passages that answer, compared with a slow oracle that marks every character."""

import html
import json
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed import cli
from mteb_longembed.comparing import page as pages
from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.compare import _Run
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.evaluate import Evaluated, Ground, expected_seconds
from mteb_longembed.comparing.passages import first_answers, score_passages
from mteb_longembed.data.task import beir_task
from mteb_longembed.encoders.store import Counts
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.scoring import data_identity
from mteb_longembed.retrieval import passages as windows_of
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from tests import tiny
from tests.comparing.conftest import compare
from tests.comparing.frames import frame
from tests.own_data import beir

spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair)))
shown = st.lists(st.tuples(spans, st.integers(0, 50)), max_size=8)
documents = st.sampled_from([f"d{i}" for i in range(8)])
judged = st.dictionaries(documents, st.lists(spans, min_size=1, max_size=3))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(shown, judged), min_size=1, max_size=9))
def test_ranks_tokens_and_shares_are_those_of_an_oracle_that_marks_each_character(queries) -> None:
    ranks, read = [], []
    for passages, answers in queries:
        n_tokens, rank, n_read = 0, math.inf, math.inf
        for position, ((start, end), n) in enumerate(passages, start=1):
            n_tokens += n
            marked = set(range(start, end))
            for first, last in answers.get(f"d{position - 1}", []):
                characters = list(range(first, last))
                if 2 * sum(c in marked for c in characters) >= len(characters) and rank == math.inf:
                    rank, n_read = position, n_tokens
        ranks.append(rank)
        read.append(n_read)
    shown = [[(f"d{j}", *span, n) for j, (span, n) in enumerate(passages)] for passages, _ in queries]
    rows = {f"q{i}": passages for i, passages in enumerate(shown)}
    answers = first_answers(rows, {f"q{i}": judged for i, (_, judged) in enumerate(queries)})
    assert list(answers.values()) == list(zip(ranks, read, strict=True))
    scores = score_passages([answers])
    for k, interval in scores.at.items():
        assert interval.mean == pytest.approx(100 * sum(rank <= k for rank in ranks) / len(ranks))
    assert scores.tokens.mean == statistics.median(read)
    assert scores.tokens.low <= scores.tokens.mean <= scores.tokens.high


def judge(root: Path, *rows: str) -> Path:
    lines = ["query-id\tcorpus-id\tscore\tstart\tend", *rows]
    (root / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return root


def test_judged_passages_are_characters_of_the_text_and_change_no_identity(tmp_path) -> None:
    root = beir(tmp_path, ["the key is here and there", "other"], ["where"])
    plain = data_identity(beir_task(root), "test")
    rows = [json.loads(line) for line in (root / "corpus.jsonl").read_text().splitlines()]
    task = beir_task(judge(root, "q0\td0\t1\t4\t7", "q0\td0\t1\t20\t25"))
    assert data_identity(task, "test") == plain
    assert task.passages("test") == {"q0": {"d0": [(4, 7), (20, 25)]}}
    rows[0]["title"] = " A title"
    (root / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = beir_task(root)
    text = task.dataset["default"]["test"]["corpus"]["text"][0]
    assert [text[start:end] for start, end in task.passages("test")["q0"]["d0"]] == ["key", "there"]
    for score, start, end in (
        ("1", "4", "4"), ("0", "-1", "3"), ("1", "4", "26"), ("0", "4", ""), ("1", "", "7"), ("1", "a", "b")
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"row 1: start and end must be whole numbers of characters"):
            beir_task(judge(root, f"q0\td0\t{score}\t{start}\t{end}", "q0\td1\t1\t0\t5"))


@pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])
def test_generated_tasks_know_their_passages(task) -> None:
    data = task.generate("test_256")
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    hidden = {f"d{i}": item for i, item in enumerate(data["corpus"].hidden)}
    for query, passages in task.passages("test_256").items():
        ((document, ((start, end),)),) = passages.items()
        assert data["relevant_docs"][query] == {document: 1}
        assert texts[document][start:end] == hidden[document].text


def test_compare_prints_passages_and_later_runs_know_them(base, tmp_path, monkeypatch) -> None:
    texts = [" ".join(f"{sign}{sign}" for sign in "abcdefghijklmnop"[i:] * 4) for i in range(6)]
    root = beir(tmp_path / "data", texts, [text[-9:] for text in texts])
    judge(root, *(f"q{i}\td{i}\t1\t{len(text) - 9}\t{len(text)}" for i, text in enumerate(texts)))
    windows = f"{base}+pcw@128,size=10,vectors=window"
    candidates = [Candidate(f"{base}+none@16", base, True, 16, 16), Candidate(windows, base, False, 16, 128)]
    monkeypatch.setattr(windows_of, "WINDOW_CHARS", 10)
    options = {"bm25": True, "metric": ["nDCG@10", "Success@1", "Success@5"]}
    comparison, best = (
        compare(candidates, beir_task(root), tmp_path / "out", passages=b, **options) for b in (False, True)
    )
    scores = comparison.passages
    assert set(scores) == set(best.passages) == {row.name for row in comparison.rows}
    # the base reads 16 tokens of the beginning, and so never shows the end; without windows BM25 shows whole documents
    assert scores[f"{base}+none@16"] == best.passages[f"{base}+none@16"]
    assert scores[f"{base}+none@16"].at[5].mean == 0 and scores[f"{base}+none@16"].tokens.mean == math.inf
    (lexical,) = (row for row in comparison.rows if row.is_bm25)
    for k, share in scores[BM25].at.items():
        assert share.mean == lexical.others[f"Success@{k}"].mean
    assert best.passages[BM25] != scores[BM25] and best.passages[windows] == scores[windows]
    table = next(table for table in pages.tables(comparison) if table.key == "passages")
    assert table.header[1:] == ["passage@1", "passage@5", "tokens read"]
    assert "percent of 6 judged queries" in table.notes[0] and "first 100" not in table.notes[1]
    written = json.loads(pages.as_json(comparison))["passages"]
    assert written[windows]["passage@5"][0] == scores[windows].at[5].mean
    monkeypatch.setattr("mteb_longembed.comparing.evaluate.mteb.get_model", pytest.fail)
    second = compare(candidates, beir_task(root), tmp_path / "out", passages=False, **options)
    assert second.passages == scores


def test_tokens_of_windows_are_in_a_number_of_their_own(base, tmp_path, monkeypatch, capsys) -> None:
    texts = [tiny.text(40, i) for i in range(6)]
    root = beir(tmp_path / "data", texts, [text[:20] for text in texts])
    judge(root, *(f"q{i}\td{i}\t1\t0\t20" for i in range(6)))
    n_encoded, add = [], Counts.add
    monkeypatch.setattr(Counts, "add", lambda self, ran, read: (n_encoded.extend(ran), add(self, ran, read)))
    monkeypatch.setattr(windows_of, "WINDOW_CHARS", 50)
    line = ["compare", base, "--data", str(root), "--strategies", "gp", "--no-bm25", "--output-folder"]
    for store, options in (("plain", ["--no-passages"]), ("windows", [])):
        monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / store))
        n_encoded.clear()
        assert cli.main([*line, str(tmp_path / f"{store}-out"), *options]) == 0
        (path,) = (tmp_path / f"{store}-out").rglob("compare.json")
        capsys.readouterr()
        rows = json.loads(path.read_text())["candidates"]
        n_windows = sum(row["tokens_windows"] for row in rows)
        assert sum(n_encoded) == sum(row["tokens_encoded"] for row in rows) + n_windows
        assert bool(n_windows) == (store == "windows")
    assert cli.main([*line, str(tmp_path / "windows-out"), "--explain"]) == 0
    assert "were encoded, and 0 of windows for passages" in " ".join(capsys.readouterr().out.split())


def ground(n_queries: int = 0, *, windows: bool = True) -> Ground:
    judged = {("T", "s"): {str(i): {} for i in range(n_queries)}}
    corpora = {("T", "s"): [range(400)], ("T", "u"): []}
    return Ground(None, {}, corpora, judged, None, windows, print)


def test_the_time_of_windows_is_expected() -> None:
    tokens = {"T/s": 1000, "T/u": 10}
    one, several = Cost(tokens, speeds=[10.0], vectors=1.0), Cost(tokens, speeds=[10.0], vectors=5.0)
    both = [("T", "s"), ("T", "u")]
    # a query shows 100 documents at most
    for windows, n_queries, seconds in ((True, 4, 201), (True, 1, 126), (False, 4, 101)):
        work = ground(n_queries, windows=windows)
        assert expected_seconds(one, work, both) == seconds
        assert expected_seconds(several, work, both) == 101 and expected_seconds(one, work, both[1:]) == 1
    assert expected_seconds(Cost(tokens), ground(), both) == math.inf
    assert expected_seconds(Cost(), ground(), both) == 0


def test_of_equal_candidates_the_same_one_is_fused_whichever_ran_first() -> None:
    one, other = Candidate("mini-ape+gp@1024", "mini-ape"), Candidate("mini-ape+pi@1024", "mini-ape")
    for order in ((one, other), (other, one)):
        run = _Run(ground(), 0.0, None)
        run.done = [
            Evaluated(c, frame({c: {("T", "s"): {"q": 1.0}}}), Cost()) for c in (*order, Candidate(BM25, ""))
        ]
        assert run.fusion().name == "mini-ape+gp@1024:fuse=bm25"
        run.done.pop()  # without BM25 there is nothing to fuse with
        assert run.fusion() is None


def test_the_page_marks_the_answer_in_the_passages_of_both_sides(base, tmp_path) -> None:
    answers = [f"<b>{sign * 4} & {sign * 3}</b>" for sign in "qrstuvwxyz"]
    texts = [f"{'aa bb cc. ' * i}{answer} {'dd ee ff. ' * 90}" for i, answer in enumerate(answers)]
    root = beir(tmp_path / "data", texts, answers)
    judge(root, *(f"q{i}\td{i}\t1\t{10 * i}\t{10 * i + len(a)}" for i, a in enumerate(answers)))
    who = [Candidate(BM25, ""), Candidate(f"{base}+none@16", base, True, 16, 16)]
    found, plain = (
        compare(who, beir_task(root), tmp_path / "out", passages=windows) for windows in (True, False)
    )
    (shown,), (unshown,) = found.queries.values(), plain.queries.values()
    page = pages.page(found, []).replace("<wbr>", "")
    assert shown and "passage there" in page
    for query in shown:
        answer = answers[int(query.query[1:])]
        for side in (query.best, query.other):
            assert len(side.passage) <= 242 and side.passage.strip("…") in texts[int(side.first[1:])]
        assert query.best.first == query.query.replace("q", "d")
        assert query.best.passage[slice(*query.best.answer)] == answer
        assert f"<mark>{html.escape(answer)}</mark>" in page and answer not in page
    page = pages.page(plain, [])
    assert [query.query for query in unshown] == [query.query for query in shown]
    assert "<mark>" not in page and "passage there" not in page
