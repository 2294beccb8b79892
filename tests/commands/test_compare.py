"""The command line of `compare`: its arguments, its output, its files."""

import json
import os
import re
import shlex
import signal

import pandas as pd
import pytest

import mteb_longembed
from mteb_longembed import cli
from mteb_longembed.commands import compare
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.run import Result, Runner
from mteb_longembed.comparing.summary import Row
from mteb_longembed.comparing.verdict import Setting, type_next
from mteb_longembed.errors import InputError
from tests import tiny
from tests.own_data import beir


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([], "compare needs exactly one kind of data: .* got 0 kinds"),
        (["--queries", "x"], "--corpus, --queries and --qrels belong together"),
        (["-t", "LongEmbedPasskey", "--language", "deu"], "tasks have their own: leave out 'deu'"),
        (["-t", "LongEmbedPasskey", "--figure", "x.jpg"], "a figure is a .svg, .png or .pdf file"),
        (["-t", "LongEmbedPaskey"], "unknown task 'LongEmbedPaskey': did you mean 'LongEmbedPasskey'"),
    ],
)
def test_data_that_do_not_go_together_get_one_sentence(line, message, tmp_path) -> None:
    with pytest.raises(InputError, match=message):
        compare.main(cli._parsed(["compare", "mini-rope", *line, "--output-folder", str(tmp_path)]))


def test_the_answer_comes_first_and_a_page_is_written(base, files, tmp_path, capsys, monkeypatch) -> None:
    line = ["compare", base, *files, "--strategies", "gp", "--output-folder", str(tmp_path), "--no-bm25"]
    monkeypatch.setattr("sys.argv", ["mteb-longembed", *line])
    assert cli.main([*line, "--figure", str(tmp_path / "figures" / "all.png")]) == 0
    printed = capsys.readouterr().out
    use, certainty, price = printed.splitlines()[:3]
    assert use.startswith("Use ") and "Type: mteb-longembed search " in use
    assert (
        "12 queries" in certainty and "times the operations of the base" in price
    ) or "KB of vectors" in price
    assert "12 queries | 10,000 resamples, seed 0 | nDCG@10 | mteb-longembed" in printed
    words = shlex.split(use.partition("Type: mteb-longembed ")[2])
    assert words[0] == "search" and words[2:4] == ["--corpus", files[1]]
    assert cli.main(words) == 0  # as it stands
    assert capsys.readouterr().out.startswith("1. ")
    (page,) = tmp_path.rglob("compare.html")
    shown = page.read_text()
    assert "<dt>Command</dt><dd>mteb-longembed compare " in shown and " --strategies gp " in shown
    assert re.search(r"12; the median has (38|40) tokens, the longest \d\d", shown)
    order = ['<header class="answer">', 'id="standings"', 'id="table-compare"', "About this comparison"]
    positions = [shown.index(part) for part in order]
    assert positions == sorted(positions)
    assert (tmp_path / "figures" / "all.png").is_file()
    scores = pd.read_parquet(page.with_name("scores.parquet"))
    assert list(scores.columns[:5]) == ["candidate", "task", "split", "query", "score"] and len(scores) == 24
    assert cli.main([*line, "--json"]) == 0
    machine = json.loads(capsys.readouterr().out)
    assert machine == json.loads(page.with_name("compare.json").read_text())
    assert all(row["score_low"] <= row["score"] <= row["score_high"] for row in machine["candidates"])


@pytest.mark.parametrize("tail", ["BASE+gp@128", "BASE+gp@128:fusion=bm25", "bm25:window=200"])
def test_what_it_says_to_type_runs(tail, base, files, tmp_path, capsys) -> None:
    name = tail.replace("BASE", base)
    assert cli.main(["compare", name, *files, "--no-bm25", "--output-folder", str(tmp_path), "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert cli.main(shlex.split(advice["advice"]["typed"])[1:]) == 0
    # no document has the terms of YOUR QUESTION, so BM25 has nothing to show
    first = "No document has a term" if name.startswith("bm25") else "1. "
    assert capsys.readouterr().out.startswith(first)
    (row,) = (Row(id=one["candidate"], label="", kind=one["kind"]) for one in advice["candidates"])
    assert eval(type_next(row, Setting()), {"mteb_longembed": mteb_longembed}) is not None


def test_one_query_has_scores_without_intervals_and_report_leaves_them_to_compare(base, tmp_path, capsys):
    beir(tmp_path, [f"{tiny.text(40, 0)} {tiny.text(8, 1)}", tiny.text(8, 2)], [tiny.text(8, 1)])
    line = ["compare", base, "--data", str(tmp_path), "--strategies", "gp", "--no-bm25"]
    assert cli.main([*line, "--output-folder", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Nothing can be said yet.\n1 query cannot decide anything: judge 40 or more")
    (path,) = tmp_path.rglob("compare.json")
    machine = json.loads(path.read_text(), parse_constant=pytest.fail)  # NaN is no JSON
    assert {row["score_low"] for row in machine["candidates"]} == {None}
    assert machine["schema"] == 1
    assert cli.main(["report", str(tmp_path / "out")]) == 2


def test_an_interrupt_prints_the_answer_and_ends_with_its_status(base, files, tmp_path, capsys, monkeypatch):
    run = Runner.run

    def terminated(self: Runner, candidate: Candidate) -> Result:
        if "+gp" in candidate.name:
            os.kill(os.getpid(), signal.SIGTERM)
        return run(self, candidate)

    monkeypatch.setattr(Runner, "run", terminated)
    before = signal.getsignal(signal.SIGTERM)
    line = ["compare", base, *files, "--strategies", "gp", "--output-folder", str(tmp_path), "--no-bm25"]
    assert cli.main(line) == 130
    printed = capsys.readouterr().out
    assert printed.startswith(
        "1 of 2 candidates, interrupted. So far: use base: there is nothing to compare it with."
    )
    (written,) = tmp_path.rglob("compare.json")
    machine = json.loads(written.read_text())
    assert machine["is_complete"] is False and "1 of 2 candidates, interrupted" in machine["advice"]["use"]
    assert "1 of 2 candidates, interrupted" in written.with_name("compare.html").read_text()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_python_call_its_data_object_and_the_command_say_the_same(
    base, data, files, tmp_path, capsys
) -> None:
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels/test.tsv"}
    paths = {name: data / path for name, path in names.items()}
    options = {"strategies": ["gp", "se"], "bm25": False, "show": False, "output_folder": tmp_path}
    made = mteb_longembed.Data(**paths)
    result = mteb_longembed.compare(base, **paths, **options)
    assert result.texts("left out")[0].startswith(f"se does not fit {base}: ")
    of_object = mteb_longembed.compare(base, made, **options).summary
    assert of_object["score"].to_dict() == result.summary["score"].to_dict()
    line = ["compare", base, *files, "--strategies", "gp", "--no-bm25", "--json", "--output-folder"]
    assert cli.main([*line, str(tmp_path)]) == 0
    written = json.loads(capsys.readouterr().out)
    assert {row["candidate"]: row["score"] for row in written["candidates"]} == pytest.approx(
        result.summary["score"].to_dict()
    )
    assert written["advice"]["answer"] == list(result.advice.answer)
    with pytest.raises(InputError, match=r"one kind of data, got data= and corpus="):
        mteb_longembed.compare(base, made, corpus=pd.DataFrame({"id": ["a"], "text": ["b"]}), **options)
    with pytest.raises(InputError, match="corpsu"):
        mteb_longembed.compare(base, corpsu="docs.jsonl", **options)
