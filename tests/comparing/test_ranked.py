"""Rankings of other programs are candidates like any other; what they lack is told, and a gate closes on a loss."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mteb_longembed as longembed
from mteb_longembed.cli import main
from mteb_longembed.comparing.compare import Comparison
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.comparing.ranked import Points, Ranked, read_run
from mteb_longembed.retrieval.scorer import Documents
from tests import tiny
from tests.own_data import beir

N = 30
DOCUMENTS = [tiny.text(20, seed) for seed in range(N)]
QUERIES = [f"q{number}" for number in range(N)]


def trec(file: Path, right: int) -> Path:
    """A run in which the first `right` queries find their document first, and the others in the second place."""
    lines = []
    for number in range(N):
        own, other = f"d{number}", f"d{(number + 1) % N}"
        order = [own, other] if number < right else [other, own]
        for rank, document in enumerate(order):
            lines.append(f"q{number} Q0 {document} {rank + 1} {2 - rank} tag\n")
    file.write_text("".join(lines))
    return file


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return beir(tmp_path / "data", DOCUMENTS, [text[:11] for text in DOCUMENTS])


def compared(data: Path, folder: Path, **options: Any) -> Comparison:
    quiet = {"bm25": False, "show": False, "on_message": lambda text: None}
    return longembed.compare(data=data, metric="nDCG@10", folder=folder / "out", **{**quiet, **options})


def test_a_run_has_the_scores_that_a_hand_gives_it(data: Path, tmp_path: Path) -> None:
    result = compared(data, tmp_path, runs={"engine": trec(tmp_path / "a.trec", 20)})
    assert result.summary.loc["run/engine", "score"] == pytest.approx(100 * (20 + 10 / np.log2(3)) / 30)
    assert result.texts("data") == ["run/engine has fewer than 10 documents for 30 of 30 queries."]
    assert "Type:" not in result.advice.answer[0]


@pytest.mark.parametrize("kind", ["file", "gzip", "dict", "frame", "ranx"])
def test_runs_of_every_kind_are_read_alike(tmp_path: Path, kind: str) -> None:
    want = {"q0": {"d1": 2.0, "d2": 0.5}, "q1": {"d2": 1.0}}
    lines = "q0 Q0 d1 1 2.0 x\nq0 Q0 d2 2 0.5 x\n\nq1\tQ0\td2\t1\t1.0\tx\n"
    plain = tmp_path / "run.trec"
    plain.write_text(lines)
    packed = tmp_path / "run.trec.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    rows = [(q, d, s) for q, of in want.items() for d, s in of.items()]
    given: dict[str, Any] = {
        "file": plain,
        "gzip": str(packed),
        "dict": want,
        "frame": pd.DataFrame(rows, columns=["q_id", "doc_id", "score"]),
        "ranx": type("Run", (), {"to_dict": lambda self: want})(),
    }
    assert read_run("mine", given[kind]) == want


def test_scores_by_query_are_a_candidate_without_a_ranking(data: Path, tmp_path: Path) -> None:
    points = pd.DataFrame({"query": QUERIES[:-2], "score": [0.5] * (N - 2)})
    runs = {"engine": trec(tmp_path / "a.trec", 20), "own": points}
    result = compared(data, tmp_path, runs=runs, run_bytes={"engine": 900.0})
    assert result.summary.loc["run/own", "score"] == pytest.approx(50 * (N - 2) / N)
    assert "run/own has no score for 2 of 30 queries: they score 0." in result.texts("data")
    # a cost is what its user states
    assert result.summary.loc["run/engine", "bytes"] == 900
    assert np.isnan(result.summary.loc["run/own", "bytes"])


def test_a_run_that_is_best_is_not_fused_and_its_stated_size_is_its_cost(data: Path, tmp_path: Path) -> None:
    options = {"runs": {"engine": trec(tmp_path / "a.trec", 30)}, "run_bytes": {"engine": 2048.0}}
    result = compared(data, tmp_path, bm25=True, **options)
    assert {"run/engine", "bm25:window=200"} <= set(result.summary.index)
    assert not [name for name in result.summary.index if "fuse" in name]
    alone = compared(data, tmp_path, **options)
    assert alone.advice.answer[2] == "It stores 2.0 KB a document, as was stated."


def test_scores_by_query_are_numbers_from_0_to_1() -> None:
    with pytest.raises(DataError, match=r"the score of a query must lie between 0 and 1, got 64\.0 for q1"):
        Points.read("own", pd.DataFrame({"qid": ["q1"], "score": [64]}))
    with pytest.raises(DataError, match="a score must be a number, got 'much'"):
        Points.read("own", pd.DataFrame({"qid": ["q1"], "score": ["much"]}))
    indexed = pd.DataFrame({"score": [0.5]}, index=pd.Index(["q1"], name="query"))
    assert Points.read("own", indexed).of_query == {"q1": 0.5}
    with pytest.raises(DataError, match="needs a column query, got name, score"):
        Points.read("own", pd.DataFrame({"name": ["q1"], "score": [0.5]}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q0 0 d1 1\n", r"line 1: a TREC run has 6 columns .*, got 4\."),
        ("q0 Q0 d1 1 much x\n", r"line 1: a score must be a number, got 'much'\."),
        ("q0 Q0 d1 1 2 x\nq0 Q0 d1 2 1 x\n", r"line 2: d1 is there twice for the query q0\."),
        ("q0 Q0 d1 1 nan x\n", r"a score must be finite, got nan for q0 and d1\."),
        ("", r"must have at least one ranked document, got none\."),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_line(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "run.trec"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        read_run("mine", file)


def test_what_a_run_lacks_is_told() -> None:
    documents = Documents(["d0", "d1"], ["aa", "bb"])
    ranked = Ranked("mine", {"q0": {"d0": 1.0, "gone": 0.5}}, {"q0": "aa", "q1": "bb"})
    ranked.fit(documents)
    assert ranked.scores(["aa", "bb"]).tolist() == [[1.0, -np.inf], [-np.inf, -np.inf]]
    assert ranked.missing(["q0", "q1"], documents, 2) == [
        "run/mine has no ranking for 1 of 2 queries: they score 0.",
        "run/mine has 1 document that is not in the corpus, such as gone: not counted.",
        "run/mine has fewer than 2 documents for 1 of 2 queries.",
    ]
    with pytest.raises(InputError, match=r"^queries with one text must have one ranking, got two"):
        Ranked("mine", {"q0": {"d0": 1.0}, "q1": {"d1": 1.0}}, {"q0": "aa", "q1": "aa"})


@pytest.mark.parametrize(("right", "status"), [(30, 0), (25, 0), (5, 1)])
def test_a_gate_closes_only_on_a_sure_loss(data, tmp_path, right, status, capsys) -> None:
    old, new = trec(tmp_path / "old.trec", 26), trec(tmp_path / "new.trec", right)
    command = ["compare", "--run", f"old={old}", "--run", f"new={new}", "--gate", "new", "--data", str(data)]
    assert main([*command, "--no-bm25", "--output-folder", str(tmp_path / "out")]) == status
    assert ("run/new is surely below run/old" in capsys.readouterr().err) == bool(status)


def test_options_of_runs_that_do_not_go_together_are_one_sentence(data: Path, tmp_path: Path, capsys) -> None:
    run = trec(tmp_path / "a.trec", 20)
    assert main(["compare", "--data", str(data)]) == 2
    assert main(["compare", "--data", str(data), "--run", f"a={run}", "--gate", "a"]) == 2
    assert main(["compare", "--data", str(data), "--run", f"a={run}", "--run-bytes", "b=9"]) == 2
    assert main(["compare", "--data", str(data), "--run", f"a={run}", "--run-bytes", "a=none"]) == 2
    said = capsys.readouterr().err
    assert "--run-bytes needs the name of a --run, got b." in said
    assert "--run-bytes of a must be a number above 0, got 'none'." in said
    assert "compare needs a model or a --run NAME=FILE" in said
    assert "--gate needs the name of a --run behind the first one, got a" in said
