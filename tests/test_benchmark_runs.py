"""`mteb run -b` by the stock command on both benchmarks, from an installation to the report.

The hub serves stand-ins of the published data under their real names, as many and as long as the originals:
nothing is switched off, neither the check for the published size nor a split.
"""

import csv
import json
import re
import shutil
from pathlib import Path

import mteb
import pytest
from mteb.results import TaskResult

from mteb_longembed import cli
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.names.zoo import ZOO
from mteb_longembed.reports.scores.columns import COLUMNS
from tests import published_data, tiny
from tests.loopback_hub import LoopbackHub

#: Minutes: the nightly run has them.
pytestmark = pytest.mark.long

REVISION = str(ZOO["e5-base"].revision)
MODEL = "intfloat/e5-base-v2+pi@1024"
BENCHMARKS = ("LongEmbed+", "LongEmbed")
SAME_DATA = {
    "LongEmbedNarrativeQA": "LEMBNarrativeQARetrieval",
    "LongEmbedQMSum": "LEMBQMSumRetrieval",
    "LongEmbedSummScreenFD": "LEMBSummScreenFDRetrieval",
    "LongEmbed2WikiMultihopQA": "LEMBWikimQARetrieval",
}


@pytest.fixture(scope="module")
def results(stock, tmp_path_factory) -> Path:
    """What `mteb run -b LongEmbed+ LongEmbed -m e5-base+pi@1k` wrote."""
    folder = tmp_path_factory.mktemp("benchmarks")
    tiny.sentence_transformer("bert", folder / "base", max_position_embeddings=512, num_hidden_layers=1)
    with LoopbackHub() as hub:
        published_data.serve(hub)
        hub.add("intfloat/e5-base-v2", folder / "base" / "model", sha=REVISION)
        env = hub.env(folder / "home", OMP_NUM_THREADS="1")
        stock.run("-m", "mteb", "run", "-b", *BENCHMARKS, "-m", "e5-base+pi@1k", env=env, cwd=folder)
    return folder / "results"


def read(results: Path) -> dict[str, TaskResult]:
    files = [file for file in results.rglob("*.json") if file.name != "model_meta.json"]
    folder = f"{MODEL.replace('/', '__')}/{REVISION}-{ALGORITHM}"
    assert {"/".join(file.parts[-3:-1]) for file in files} == {folder}
    return {file.stem: TaskResult.from_disk(file) for file in files}


def test_every_task_has_one_ordinary_result_file_with_all_its_splits(results: Path) -> None:
    by_task = read(results)
    tasks = {task.metadata.name: task for name in BENCHMARKS for task in mteb.get_benchmark(name).tasks}
    assert set(by_task) == set(tasks) and len(tasks) == 12
    for name, task in tasks.items():
        assert set(by_task[name].scores) == set(task.metadata.eval_splits), name
        assert by_task[name].dataset_revision == task.metadata.revision
        assert all(rows[0]["main_score"] is not None for rows in by_task[name].scores.values())


def test_the_same_data_give_the_same_score_under_both_names(results: Path) -> None:
    by_task = read(results)
    for ours, theirs in SAME_DATA.items():
        assert by_task[ours].get_score() == pytest.approx(by_task[theirs].get_score(), abs=1e-5), ours
    # random weights, but documents about one thing each: something is found, so ids and judgements are in order
    assert by_task["LongEmbedQMSum"].get_score() > 0.9


def lines(results: Path, folder: Path) -> dict[str, dict[str, str]]:
    """The one line of each main table that `report` makes of the results."""
    assert cli.main(["report", str(results), "--format", "csv", "--output-folder", str(folder)]) == 0
    rows = {file.stem: list(csv.DictReader(file.open())) for file in folder.glob("main-*.csv")}
    return {table: line for table, (line,) in rows.items()}


def test_the_report_has_a_whole_line_for_either_benchmark(results: Path, tmp_path: Path) -> None:
    sections = lines(results, tmp_path)
    assert set(sections) == {"main-generated", "main-published"}
    for line in sections.values():
        assert line["Model"] == MODEL
        scores = [float(line[column.key]) for column in COLUMNS]
        assert float(line["Average"]) == pytest.approx(sum(scores) / 6, abs=1e-3)


def test_the_report_shows_a_half_run_as_partial(results: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(results, tmp_path / "copy")
    (needle,) = copy.rglob("LongEmbedNeedle.json")
    content = json.loads(needle.read_text())
    del content["scores"]["test_512"]
    needle.write_text(json.dumps(content))
    for name in ("LEMBQMSumRetrieval", "LongEmbedQMSum"):
        next(copy.rglob(f"{name}.json")).unlink()
    sections = lines(copy, tmp_path / "tables")
    for line in sections.values():
        assert "QMSum" not in line  # a column without any result is left out
    assert re.fullmatch(r"\d\.\d \(7/8\)", sections["main-generated"]["Needle"])
    assert sections["main-generated"]["Average"] == "(4/6)"
    assert sections["main-published"]["Average"] == "(5/6)"
