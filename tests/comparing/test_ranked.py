"""Rankings of other programs are candidates like any other; what they lack is told, and a gate closes on a loss."""

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.dataset
import pytest

import mteb_longembed as longembed
from mteb_longembed.cli import main
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.ranked import Ranked, read_run
from mteb_longembed.data.task import beir_task
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.split import splits_of
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
    return longembed.compare(
        data=data, metric="nDCG@10", output_folder=folder / "out", **{**quiet, **options}
    )


def test_a_run_has_the_scores_that_a_hand_gives_it(data: Path, tmp_path: Path) -> None:
    result = compared(data, tmp_path, runs={"engine": trec(tmp_path / "a.trec", 20)})
    assert result.summary.loc["run/engine", "score"] == pytest.approx(100 * (20 + 10 / np.log2(3)) / 30)
    assert not result.texts("data")
    assert "Type:" not in result.advice.answer[0]


@pytest.mark.parametrize("kind", ["file", "gzip", "dict", "frame", "arrow", "stream", "pyterrier", "ranx"])
def test_runs_of_every_kind_are_read_alike(tmp_path: Path, kind: str) -> None:
    want = {"q0": {"d1": 2.0, "d2": 0.5}, "q1": {"d2": 1.0, "a file.txt": 0.5}}
    # ranks need not fall with each score; a byte order mark is no part of an id; with tabs ids may have blanks
    lines = "\ufeffq0 Q0 d1 1 2.0 x\nq0 Q0 d2 1 0.5 x\n\nq1 Q0 d2 1 1.0 x\nq1\tQ0\ta file.txt\t2\t.5\tx\r\n"
    plain = tmp_path / "run.trec"
    plain.write_text(lines, encoding="utf-8")
    packed = tmp_path / "run.trec.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    rows = [(q, d, s) for q, of in want.items() for d, s in of.items()]
    table = pd.DataFrame(rows, columns=["query", "docno", "sim"])
    # PyTerrier's own frames: the text of the query, and the document's place in the index
    theirs = table.rename(columns={"query": "qid", "sim": "score"}).assign(query="who?", docid=3, rank=0)
    given: dict[str, Any] = {
        "file": plain,
        "gzip": str(packed),
        "dict": want,
        "frame": pd.DataFrame(rows, columns=["q_id", "doc_id", "score"]),
        "arrow": pyarrow.Table.from_pandas(table),
        "stream": iter(table.to_dict("records")),
        "pyterrier": theirs,
        "ranx": type("Run", (), {"to_dict": lambda self: want})(),
    }
    assert read_run("mine", given[kind]) == want


def test_a_run_that_is_best_is_not_fused(data: Path, tmp_path: Path) -> None:
    runs = {"engine": trec(tmp_path / "a.trec", 30)}
    result = compared(data, tmp_path, bm25=True, runs=runs)
    assert {"run/engine", "bm25:window=200"} <= set(result.summary.index)
    assert not [name for name in result.summary.index if "fusion" in name]
    assert compared(data, tmp_path, runs=runs).advice.answer[2] == "Its cost is not known here."


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "rescaled",
    [
        lambda rank: 1 / (1 + math.exp(rank - 20.0)),  # 1 - 2e-9 and so on
        lambda rank: 1_764_000_000.0 - rank / 1000,  # times in seconds
        lambda rank: 9e38 - rank * 1e30,
    ],
    ids=["sigmoids", "times", "huge"],
)
def test_one_ranking_has_one_score_however_its_scores_are_written(
    data: Path, tmp_path: Path, rescaled
) -> None:
    run = {f"q{i}": {f"d{(i + rank) % N}": rescaled(rank) for rank in (3, 0, 1, 2)} for i in range(N)}
    result = compared(data, tmp_path, runs={"engine": run})
    assert result.summary.loc["run/engine", "score"] == pytest.approx(100)
    assert not result.texts("caution")


ROW = {"query": "q0", "document": "d1", "score": 1.0}
FRAME = pd.DataFrame([ROW])


@pytest.mark.parametrize(
    "form",
    [
        lambda table: table.to_reader(),
        lambda table: iter(table.to_batches()),
        lambda table: pyarrow.dataset.dataset(table).to_batches(),
        lambda table: polars.from_arrow(table).lazy(),
    ],
    ids=["reader", "batches", "data set", "lazy frame"],
)
def test_a_run_may_be_a_stream_of_arrow(form) -> None:
    table = pyarrow.Table.from_pylist([{"qid": "q0", "docno": "d0", "score": 1.5}])
    assert read_run("mine", form(table)) == {"q0": {"d0": 1.5}}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("q0 0 d1 1\n", r"row 1: expected 6 values .*, got 4\."),
        ("q0 Q0 d1 1 much x\n", r"row 1: a score must be a finite number, got .* score much\."),
        ("q0 Q0 d1 1 2 x\nq0 Q0 d1 2 1 x\n", "row 2: a document must appear once for a query"),
        ("q0 Q0 d1 1 nan x\n", r"a score must be a finite number, got .* score nan\."),
        ("", r"expected rows, got none\."),
        ({1: {"d1": 1.0}, "1": {"d1": 2.0}}, "a document must appear once .*, got query 1, document d1"),
        ([{**ROW, "query": None}], "row 1: the ids .* must not be empty, got query (nan|None)"),
        ([{"query": "q0", "score": 1.0}], "needs a column document, got query, score"),
        ({"q0": ["d1", "d2"]}, "each query needs a dict of documents with their scores, got a list"),
        (None, "the run mine: expected a file, .* a table, or an iterable of rows or tables, got a NoneType"),
        (pd.concat([FRAME, FRAME[["score"]]], axis=1), "expected each column once"),
        ({"q0": {"d1": 10**400}}, "a score must be a finite number, got .* score 1000"),
        (
            [{**ROW, "document": f"d{i}", "rank": i, "score": i} for i in range(5)],
            "scores rise with the ranks",
        ),
    ],
)
def test_what_is_no_run_is_one_sentence_with_its_line(tmp_path: Path, source: Any, message: str) -> None:
    if isinstance(source, str):
        (tmp_path / "run.trec").write_text(source)
        source = tmp_path / "run.trec"
    with pytest.raises((DataError, InputError), match=message) as caught:
        read_run("mine", source)
    assert "\n" not in str(caught.value)


def test_what_a_run_lacks_is_told_once_for_all_splits(tmp_path: Path) -> None:
    root = beir(tmp_path, ["aa", "bb", "cc"], ["aa", "bb", "cc"])
    for name, query in (("one", "q0"), ("two", "q1")):
        (root / f"qrels/{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{query}\td0\t1\nq2\td2\t1\n")
    splits = splits_of(beir_task(root, ["one", "two"]), [read_metric("nDCG@2")])
    run = {"q0": {"d0": 1.0, "gone": 0.5}, "q1": {"d0": 2.0, "d1": 1.0}, "Q0": {"d0": 1.0}}
    ranked = Ranked("mine", run, splits)
    ranked.fit(splits[0].documents)
    assert ranked.scores(["aa", "cc"]).tolist() == [[1.0, -np.inf, -np.inf], [-np.inf] * 3]
    assert ranked.missing(splits) == [
        "run/mine has 1 queries that are not in the data and are ignored, such as Q0.",
        "run/mine has 1 documents that are not in the corpus and are ignored, such as gone.",
        "run/mine has 1 queries without a ranking, which score 0, such as q2.",
    ]
    splits[1].queries["q1"] = "aa"
    with pytest.raises(InputError, match=r"^queries with one text must have one ranking, got two"):
        Ranked("mine", run, splits)


@pytest.mark.parametrize(("right", "status"), [(25, 0), (5, 1)])
def test_a_gate_closes_only_on_a_sure_loss(data, tmp_path, right, status, capsys) -> None:
    old, new = trec(tmp_path / "old.trec", 26), trec(tmp_path / "new.trec", right)
    command = ["compare", "--run", f"old={old}", "--run", f"new={new}", "--gate", "new", "--data", str(data)]
    assert main([*command, "--no-bm25", "--output-folder", str(tmp_path / "out")]) == status
    assert ("run/new is significantly below run/old" in capsys.readouterr().err) == bool(status)


def test_options_of_runs_that_do_not_go_together_are_one_sentence(data: Path, tmp_path: Path, capsys) -> None:
    run = trec(tmp_path / "a.trec", 20)
    for options in ([], ["--run", f"a={run}", "--gate", "a"], ["--run", f"a={run}", "--run", f"a={run}"]):
        assert main(["compare", "--data", str(data), *options]) == 2
    said = capsys.readouterr().err
    assert "each --run needs a name of its own, got a, a." in said
    assert "compare needs a model or a --run NAME=FILE" in said
    assert "--gate needs the name of a --run after the first one, got a" in said
