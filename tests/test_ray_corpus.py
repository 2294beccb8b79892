"""The examples for a cluster, on a real local Ray: killed workers and jobs change no row.

`tox -e examples` installs Ray. Elsewhere these tests are skipped.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.windows import vector_spans

EXAMPLES = Path(__file__).parents[1] / "examples"
MODEL = "mini-ape+pcw@32k:size=128"
WINDOWS = f"{MODEL},vectors=window"
SHARDS = 20
#: Ray's name for the process of our worker.
WORKER = "ray::MapWorker(Map(Encoder))"

if importlib.util.find_spec("ray") is None:
    assert os.environ.get("LONGEMBED_EXAMPLES") != "all", "ray is not installed"
    pytest.skip("needs ray: tox -e examples", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    """A Ray of three cores, two of them for workers; the environment of a job that uses it."""
    import ray

    context = ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield {**os.environ, "RAY_ADDRESS": context.address_info["gcs_address"], "HF_HUB_OFFLINE": "1"}
    ray.shutdown()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of four documents of several windows."""
    folder = tmp_path_factory.mktemp("documents")
    essays = sorted((EXAMPLES.parent / "mteb_longembed/tasks/generated/data/essays").glob("*.txt"))
    texts = [essay.read_text(encoding="utf-8") for essay in essays]
    while len(texts) < 4 * SHARDS:
        texts.append(texts[-24][len(texts) :])
    for shard in range(SHARDS):
        rows = range(4 * shard, 4 * shard + 4)
        table = pa.table({"id": [f"d{row}" for row in rows], "text": [texts[row] for row in rows]})
        pq.write_table(table, folder / f"part-{shard}.parquet")
    return folder


def start(cluster: dict[str, str], name: str, *arguments: object) -> subprocess.Popen[str]:
    """A job, as a user starts it."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=cluster, text=True, start_new_session=True, **pipes)


def run(cluster: dict[str, str], name: str, *arguments: object) -> tuple[int, str]:
    """The exit status of a job, and what it printed."""
    job = start(cluster, name, *arguments)
    output, _ = job.communicate(timeout=900)
    return job.returncode, output


def workers() -> list[psutil.Process]:
    """The workers of our cluster that have loaded a model."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if WORKER in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue  # it has just ended
    return found


def wait_for(condition: Callable[[], object], job: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if condition() or job.poll() is not None:
            return
        time.sleep(0.05)
    raise AssertionError("nothing happened in five minutes")


def finished(folder: Path) -> dict[str, int]:
    """The names of finished shards, and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}


def rows_of_one_process(folder: Path, model: Any) -> list[dict]:
    """Each document encoded alone."""
    rows = []
    for file in sorted(folder.glob("*.parquet")):
        for document in pq.read_table(file).to_pylist():
            whole = document["text"].strip()
            vectors = np.atleast_2d(model.encode_document([whole])[0])
            for (start, end), vector in zip(vector_spans(model, whole)[0].tolist(), vectors, strict=True):
                place = {"document": document["id"], "start": start, "end": end, "text": whole[start:end]}
                rows.append({**place, "vector": vector})
    return rows


def assert_equal(folder: Path, wanted: list[dict]) -> None:
    rows = pq.read_table(sorted(folder.glob("*.parquet"))).to_pylist()
    vectors = [np.array([row.pop("vector") for row in made]) for made in (rows, wanted)]
    assert rows == wanted and np.abs(vectors[0] - vectors[1]).max() < 1e-5


def test_a_killed_worker_is_replaced_and_a_killed_job_goes_on_where_it_stopped(cluster, documents, tmp_path):
    folder = tmp_path / "windows"
    command = ("ray_corpus", WINDOWS, documents, folder, "--workers", 2)
    job = start(cluster, *command)
    wait_for(lambda: finished(folder) and len(workers()) == 2, job)
    other, killed = workers()
    other.suspend()  # else it may do all the work before the new worker is there
    killed.send_signal(signal.SIGKILL)
    wait_for(lambda: len(workers()) == 2 and killed.pid not in {worker.pid for worker in workers()}, job)
    other.resume()
    wait_for(lambda: len(finished(folder)) >= 4, job)
    assert job.poll() is None
    job.kill()
    job.wait()
    kept = finished(folder)
    assert 4 <= len(kept) < SHARDS

    status, output = run(cluster, *command)
    assert status == 0, output
    assert len(finished(folder)) == SHARDS and kept.items() <= finished(folder).items()
    assert_equal(folder, rows_of_one_process(documents, longembed.load(WINDOWS, device="cpu")))


def test_workers_that_die_again_and_again_end_the_job_in_one_sentence(cluster, documents, tmp_path) -> None:
    folder = tmp_path / "windows"
    folder.mkdir()
    (folder / "part-0.parquet").touch()
    kept = finished(folder)
    job = start(cluster, "ray_corpus", WINDOWS, documents, folder, "--workers", 1)
    killed = set()
    while job.poll() is None:
        for worker in workers():  # none has loaded its model yet
            worker.send_signal(signal.SIGKILL)
            killed.add(worker.pid)
        time.sleep(0.1)
    output, _ = job.communicate()
    said = [line for line in output.splitlines() if line.endswith("type the same command again.")]
    assert job.returncode == 1 and len(said) == 1 and "a worker died 4 times" in said[0], output
    assert len(killed) == 4 and finished(folder) == kept


def test_a_shard_that_cannot_be_read_does_not_stop_the_others(cluster, documents, tmp_path) -> None:
    damaged = tmp_path / "documents"
    damaged.mkdir()
    first, second = sorted(documents.glob("*.parquet"))[:2]
    (damaged / "good.parquet").write_bytes(first.read_bytes())
    none = pa.array([], pa.string())
    pq.write_table(pa.table({"id": none, "text": none}), damaged / "empty.parquet")
    (damaged / "cut.parquet").write_bytes(second.read_bytes()[:-10])
    wrong = {
        "no-text": pa.table({"id": ["a"]}),
        "number": pa.table({"id": ["a"], "text": [3]}),
        "null": pa.table({"id": ["a"], "text": pa.array([None], pa.string())}),
        "null-id": pa.table({"id": pa.array([None], pa.string()), "text": ["a"]}),
        "twice": pa.table({"id": ["a", "a"], "text": ["a", "b"]}),
    }
    for name, table in wrong.items():
        pq.write_table(table, damaged / f"{name}.parquet")
    command = ("ray_corpus", WINDOWS, damaged, tmp_path / "windows")
    status, output = run(cluster, *command)
    said = [line for line in output.splitlines() if line.endswith("type the same command again.")]
    assert status == 1 and set(finished(tmp_path / "windows")) == {"good.parquet"}
    assert "Traceback" not in output and ".:" not in output
    problems = {Path(line.partition(" cannot be read or encoded (shard")[0]).stem: line for line in said}
    assert set(problems) == {"cut", *wrong} and len(said) == len(problems)
    assert "row 1: the text must be a text, got 3): repair, divide or delete it, then" in problems["number"]

    for name in wrong:
        (damaged / f"{name}.parquet").unlink()
    (damaged / "cut.parquet").write_bytes(second.read_bytes())
    assert run(cluster, *command)[0] == 0
    assert set(finished(tmp_path / "windows")) == {"good.parquet", "cut.parquet"}


def test_parts_of_a_data_set_lie_in_folders_and_have_titles_and_one_core_is_left_to_write(
    cluster, tmp_path
) -> None:
    part = tmp_path / "documents" / "lang=de"
    part.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["a"], "title": ["Ada"], "text": ["was here."]}), part / "part-0.parquet")
    command = ("ray_corpus", WINDOWS, tmp_path / "documents", tmp_path / "windows")
    status, output = run(cluster, *command, "--workers", 3)
    assert status == 1 and "\nworkers must be at most 2 here, because one core writes, got 3: take" in output
    status, output = run(cluster, *command)
    assert status == 0, output
    rows = pq.ParquetFile(tmp_path / "windows" / "lang=de" / "part-0.parquet").read().to_pylist()
    assert [row["text"] for row in rows] == ["Ada was here."]


def test_a_folder_without_documents_or_with_queries_is_refused(monkeypatch, tmp_path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from ray_corpus import shards_for

    with pytest.raises(SystemExit, match="missing must hold Parquet files"):
        shards_for(MODEL, tmp_path / "missing")
    (tmp_path / "documents.parquet").touch()
    assert [shard.name for shard in shards_for(MODEL, tmp_path)] == ["documents.parquet"]
    (tmp_path / "qrels-test.parquet").touch()
    with pytest.raises(SystemExit, match=r"documents alone, and has qrels-test\.parquet: move"):
        shards_for(MODEL, tmp_path)


@pytest.fixture
def database(monkeypatch, tmp_path, capsys) -> tuple[Callable[..., None], Callable[..., list[list[str]]]]:
    """What adds a shard with the vectors of a model, and what asks a database of them."""
    pytest.importorskip("lancedb")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import lancedb_shards
    from documents import QUESTION
    from ray_corpus import Encoder

    given, windows = tmp_path / "documents", tmp_path / "windows"
    given.mkdir()
    windows.mkdir()

    def add(name: str, texts: dict[str, str], model: str | None = "mini-ape") -> None:
        shard = given / f"{name}.parquet"
        pq.write_table(pa.table({"id": list(texts), "text": list(texts.values())}), shard)
        if model is not None:
            (windows / shard.name).write_bytes(Encoder(model)({"item": str(shard)})["bytes"])

    def ask(*options: object, model: str = "mini-ape", database: str = "lance") -> list[list[str]]:
        arguments = ["", given, windows, model, QUESTION, "--database", tmp_path / database, *options]
        monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
        lancedb_shards.main()
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    return add, ask


def test_windows_are_searched_and_a_table_that_is_lost_is_made_again(database, tmp_path) -> None:
    add, ask = database
    from documents import DOCUMENTS, QUESTION

    for name, text in DOCUMENTS.items():
        add(name, {name: text}, WINDOWS)
    # the words of this document are found, and it has no windows
    add("lost", {"lost": QUESTION}, None)
    first = ask(model=WINDOWS)
    assert first[0][0] == "library" and "90577" in first[0][-1] and len(first) == 3
    shutil.rmtree(tmp_path / "lance")
    assert len(ask("--where", "document != 'library'", model=WINDOWS)) == 2
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"file cannot be filled or asked .*type the same command again"):
        ask(model=WINDOWS, database="file")


def test_one_vector_a_document_is_searched_and_wrong_shards_are_reported(database, tmp_path) -> None:
    add, ask = database
    windows = tmp_path / "windows"
    add("one", {"long": "The key is under the mat. " * 200, "short": "A cat."})
    assert_equal(
        windows, rows_of_one_process(tmp_path / "documents", longembed.load("mini-ape", device="cpu"))
    )
    assert sorted(row[:2] for row in ask()) == [["long", "0"], ["short", "0"]]

    add("two", {"new": "The key is here."})
    with pytest.raises(SystemExit, match=r"must have the 3 rows of .*, and has 2: delete .*lance"):
        ask()
    assert {row[0] for row in ask(database="other")} == {"long", "short", "new"}
    good = (windows / "two.parquet").read_bytes()
    (windows / "two.parquet").write_bytes(good[:-10])
    with pytest.raises(SystemExit, match=r"two.parquet.*delete it.*the command of ray_corpus.py again\.$"):
        ask()
    (windows / "two.parquet").write_bytes(good)
    add("three", {"new": "The same id in another shard."})
    with pytest.raises(SystemExit, match=r"two.parquet, row 1: expected each id once, got 'new' again\.$"):
        ask(database="third")
