"""Encode a corpus on all cores or GPUs of a Ray cluster. Killed workers are replaced, and finished shards stay.

pip install mteb-longembed "ray[data]"
python ray_corpus.py NAME documents/ windows/

`documents/` and its folders hold Parquet files (shards) with the columns id, text and perhaps title. For each,
`windows/` gets a file of the same name with a row for each vector: document, start, end, text, vector. All machines
must see both folders.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import mteb_longembed as longembed
from mteb_longembed.data.check import read_corpus
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import resolve
from mteb_longembed.errors import LongEmbedError

#: A worker that dies is replaced so often, and its shard is read again. Ray's own number has no end.
RESTARTS = 3
AGAIN = "then type the same command again."


class Worker:
    """It loads the model once, and makes bytes of each shard, a file of documents."""

    def __init__(self, name: str) -> None:
        self.model = longembed.load(name)

    def __call__(self, shard: dict) -> dict:
        """What is wrong with one shard does not stop the others."""
        done = {"path": shard["item"], "bytes": b"", "problem": ""}
        try:
            documents = read_corpus(shard["item"], "shard")
            done["bytes"] = self.made({document.id: document.joined for document in documents})
        except (LongEmbedError, pa.ArrowException, OSError, MemoryError) as error:
            done["problem"] = (
                f"{shard['item']} cannot be read or encoded ({reason(error)}): repair, divide or delete it, {AGAIN}"
            )
        return done


class Encoder(Worker):
    """It makes a file of windows."""

    def made(self, documents: dict[str, str]) -> bytes:
        """The bytes of a Parquet file."""
        written = pa.BufferOutputStream()
        pq.write_table(self.windows(documents), written)
        return written.getvalue().to_pybytes()

    def windows(self, documents: dict[str, str]) -> pa.Table:
        """A row for each window."""
        rows = longembed.encode_windows(self.model, documents)
        vectors = np.stack([row.vector for row in rows])
        vector = pa.FixedSizeListArray.from_arrays(vectors.ravel(), vectors.shape[1])
        table = pa.Table.from_pylist([row._replace(vector=None)._asdict() for row in rows])
        return table.drop_columns("vector").append_column("vector", vector)


def write(shard: dict, documents: Path, folder: Path) -> dict:
    """Write a finished shard. Its name appears when all of it is there, so a file that exists is finished."""
    target = folder / Path(shard["path"]).relative_to(documents)
    unfinished = target.with_suffix(".unfinished")
    written = {"problem": shard["problem"], "can_write": True}
    if not shard["problem"]:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(shard["bytes"])
            unfinished.replace(target)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            written = {
                "problem": f"{target} cannot be written ({error.strerror}): make room, {AGAIN}",
                "can_write": False,
            }
    return written


def workers(threads: int, asked: int | None) -> dict:
    """What Ray is asked for: an actor for each GPU; else one for each `threads` cores, but one core stays free.

    Ray writes files in tasks of its own. Where actors hold all cores, these wait for ever.
    """
    cluster = ray.cluster_resources()
    most = int(cluster.get("GPU", 0)) or int(cluster["CPU"] - 1) // threads
    needs = {"num_gpus": 1} if "GPU" in cluster else {"num_cpus": threads}
    if not 0 < (asked or most) <= most:
        raise SystemExit(
            f"workers must be at most {most} here, because one core writes, got {asked or 1}: take fewer "
            "workers or threads, or more cores."
        )
    restarts = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
    return {**needs, **restarts, "compute": ray.data.ActorPoolStrategy(size=asked or most)}


def shards_for(name: str, documents: Path) -> list[Path]:
    """The shards of a folder and those below it. A wrong folder or name of a model is told before workers start."""
    shards = [shard for shard in sorted(documents.rglob("*.parquet")) if has_rows(shard)]
    if not shards:
        raise SystemExit(
            f"{documents} must hold Parquet files (*.parquet) with rows, and has none: name another folder."
        )
    for shard in shards:
        if shard.name.startswith(("queries", "qrels")):
            raise SystemExit(
                f"{documents} must hold documents alone, and has {shard.name}: move it elsewhere."
            )
    try:
        resolve(Method.parse_model(name))
    except LongEmbedError as error:
        raise SystemExit(str(error)) from error
    return shards


def has_rows(shard: Path) -> bool:
    """Whether a shard has rows. Of one that cannot be read, its worker will say why."""
    try:
        return pq.read_metadata(shard).num_rows > 0
    except (pa.ArrowException, OSError):
        return True


def mapped(
    worker: type[Worker], name: str, shards: list[Path], threads: int, asked: int | None = None
) -> ray.data.Dataset:
    """What workers will make of shards, a row for each."""
    ray.init(ignore_reinit_error=True)
    paths = ray.data.from_items([str(shard) for shard in shards], override_num_blocks=len(shards))
    return paths.map(worker, fn_constructor_args=(name,), **workers(threads, asked))


def rows_of(data: ray.data.Dataset) -> Iterator[dict]:
    """The rows, as they are finished."""
    try:
        yield from data.iter_rows()
    except ray.exceptions.RayTaskError:
        raise  # a mistake in code, with its place
    except ray.exceptions.RayError as error:
        raise SystemExit(
            f"a worker died {RESTARTS + 1} times, perhaps for want of memory: take fewer workers or smaller shards, "
            f"{AGAIN}"
        ) from error


def reason(error: BaseException) -> str:
    """Why something failed, on one line. Python's own MemoryError has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].rstrip(".")


def main() -> None:
    """Encode the shards that are not finished."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="such as a folder, or e5-base+pcw@32k:vectors=window")
    parser.add_argument("documents", type=Path)
    parser.add_argument("windows", type=Path)
    parser.add_argument("--workers", type=int, help="default: all GPUs, or all cores but one")
    parser.add_argument("--threads", type=int, default=1, help="of a worker without a GPU")
    args = parser.parse_args()
    documents = args.documents.resolve()
    shards = shards_for(args.name, documents)
    args.windows.mkdir(parents=True, exist_ok=True)
    todo = [shard for shard in shards if not (args.windows / shard.relative_to(documents)).exists()]
    print(f"{len(shards)} shards, {len(shards) - len(todo)} finished", flush=True)
    if not todo:
        return
    encoded = mapped(Encoder, args.name, todo, args.threads, args.workers)
    problems = []
    try:
        for shard in rows_of(encoded.map(write, fn_args=(documents, args.windows.resolve()))):
            if shard["problem"]:
                problems.append(shard["problem"])
            if not shard["can_write"]:
                break  # the next shards would be encoded for nothing
    finally:  # also where the job ends because workers die
        for problem in problems:
            print(problem)
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
