"""The questions that the recommended candidate failed, on the page, in the JSON and in a file."""

import io
import json
from pathlib import Path

import pandas as pd

import mteb_longembed
from mteb_longembed import cli

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven")


def test_failed_questions_say_what_came_first_and_in_place_of_what(tmp_path: Path, capsys) -> None:
    corpus = {f"d{i}": f"The text\nof {word}.\x1b " + "and more words " * 20 for i, word in enumerate(WORDS)}
    asked = {f"q{i}": f"What is {word}?" for i, word in enumerate(WORDS)}
    judged = {f"q{i}": {f"d{i}": 2, "d7": 1} for i in range(8)}
    right = {f"q{i}": {f"d{i}": 1.0} for i in range(5)}
    # one is second, one is not found, and the last one has no ranking
    run = {**right, "q5": {"d0": 2.0, "d5": 1.0}, "q6": {"d1": 1.0}}
    sources = {"corpus": corpus, "queries": asked, "qrels": judged, "runs": {"mine": run}}
    found = mteb_longembed.compare([], **sources, folder=tmp_path, bm25=False, show=False).questions
    assert list(found["query"]) == ["q6", "q7", "q5"] and list(found["first"]) == ["d1", "", "d0"]
    assert list(found["right"]) == ["d6", "d7", "d5"] and found["first_text"][1] == ""
    assert found["text"][2] == "What is five?" and 0 < found["score"][2] < 100
    assert found["first_text"][0].startswith("The text of one.\ufffd and") and found["right_text"][
        0
    ].endswith(" ...")
    assert len(found["right_text"][0]) <= 84


def test_the_command_writes_them_and_a_candidate_without_failures_has_no_table(
    tmp_path, data, files, capsys
) -> None:
    right = "".join(f"q{i} Q0 d{(i + 1) % 12 if i < 2 else i} 1 1 a\n" for i in range(12))
    (tmp_path / "a.trec").write_text(right)
    line = ["compare", *files, "--no-bm25", "--output-folder", str(tmp_path / "out"), "--run"]
    assert cli.main([*line, f"a={tmp_path / 'a.trec'}", "--explain"]) == 0
    assert "Questions that run/a failed" in capsys.readouterr().out
    (page,) = tmp_path.rglob("compare.html")
    shown = page.read_text()
    assert 'id="T_questions"' in shown and "For 2 of 12 queries no document that answers came first" in shown
    written = pd.read_csv(io.StringIO(page.with_name("questions.csv").read_text()))
    rows = json.loads(page.with_name("compare.json").read_text())["questions"]
    assert written["query"].tolist() == [row["query"] for row in rows] == ["q0", "q1"]
    assert [row["first"] for row in rows] == ["d1", "d2"]
    (tmp_path / "b.trec").write_text("".join(f"q{i} Q0 d{i} 1 1 a\n" for i in range(12)))
    assert cli.main([*line, f"b={tmp_path / 'b.trec'}", "--explain"]) == 0
    assert "Questions that" not in capsys.readouterr().out
