"""`mteb run -b` by the stock command on both benchmarks, from an installation to the report.

The hub serves stand-ins of the published data under their real names, as many and as long as the originals:
nothing is switched off, neither the check for the published size nor a split.
"""

from pathlib import Path

import mteb
import pytest
from mteb.results import TaskResult

from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.reports.results import load_results
from mteb_longembed.reports.strategies import by_strategy
from mteb_longembed.zoo import ZOO
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
    experiment = f"algorithm_{ALGORITHM}__strategy_pi__target_len_1024"
    folder = f"intfloat__e5-base-v2/{REVISION}/experiments/{experiment}"
    assert {"/".join(file.parts[-5:-1]) for file in files} == {folder}
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


def test_the_report_has_a_whole_line_for_both_benchmarks(results: Path) -> None:
    frame, problems = load_results([results])
    assert problems == []
    table = by_strategy(frame).set_index("model")
    # the four real tasks are one column each, Passkey and Needle two
    tasks = set(SAME_DATA) | {name for name in read(results) if "Passkey" in name or "Needle" in name}
    assert tasks <= set(table.columns) and len(tasks) == 8
    (line,) = table.to_dict("records")
    assert line["average"] == pytest.approx(sum(line[task] for task in tasks) / 8)
