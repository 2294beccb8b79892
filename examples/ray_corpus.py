"""Encode a corpus on all cores or GPUs of a Ray cluster. Killed workers are replaced, and finished shards stay.

pip install mteb-longembed "ray[data]"
python ray_corpus.py NAME documents/ windows/

`documents/` holds Parquet files with the columns id and text. `windows/` gets a file of the same name for each of them,
with a row for each vector: document, start, end, text, vector. All machines must see both folders. The same command
continues where a job was stopped.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch

import mteb_longembed as longembed
from mteb_longembed.errors import LongEmbedError, StorageError
from mteb_longembed.retrieval.passages import passages_of

#: A worker that dies is replaced so often, and its shard is encoded again. Ray's own number has no end.
RESTARTS = 3


class Encoder:
    """A worker: it loads the model once, and makes of a file of documents a file of windows."""

    def __init__(self, name: str) -> None:
        self.model = longembed.load(name)

    def __call__(self, shard: dict) -> dict:
        """Both files are bytes. What is wrong with one shard does not stop the others."""
        path = shard["path"]
        try:
            windows = self.windows(documents_of(shard))
        except (pa.ArrowException, OSError) as error:
            return {
                "path": path,
                "bytes": b"",
                "problem": f"{path} cannot be read ({reason(error)}): repair it",
            }
        except (LongEmbedError, MemoryError) as error:
            return {
                "path": path,
                "bytes": b"",
                "problem": f"{path} cannot be encoded ({reason(error)}): divide it",
            }
        written = pa.BufferOutputStream()
        pq.write_table(windows, written)
        return {"path": path, "bytes": written.getvalue().to_pybytes(), "problem": ""}

    def windows(self, documents: dict[str, list]) -> pa.Table:
        """A row for each vector. `encode_document` adds the model's prompt."""
        rows = []
        vectors_of = [vectors.reshape(-1, vectors.shape[-1]) for vectors in self.encoded(documents["text"])]
        for name, text, vectors in zip(documents["id"], documents["text"], vectors_of, strict=True):
            for (start, end), _ in zip(passages_of(self.model, text), vectors, strict=True):
                rows.append({"document": name, "start": start, "end": end, "text": text[start:end]})
        flat = np.concatenate(vectors_of)
        vector = pa.FixedSizeListArray.from_arrays(flat.ravel(), flat.shape[1])
        return pa.Table.from_pylist(rows).append_column("vector", vector)

    def encoded(self, texts: list[str]) -> list[np.ndarray]:
        """The vectors of each document, with the model's own prompt."""
        return [
            np.asarray(torch.as_tensor(vectors).cpu(), np.float32)
            for vectors in self.model.encode_document(texts)
        ]


def write(shard: dict, folder: Path) -> dict:
    """Write a finished file. Its name appears when all of it is there, so a file that exists is finished."""
    target = folder / Path(shard["path"]).name
    unfinished = target.with_suffix(".unfinished")
    if not shard["problem"]:
        try:
            unfinished.write_bytes(shard["bytes"])
            unfinished.replace(target)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise StorageError(f"{target} cannot be written ({error.strerror}): make room") from error
    return {"path": shard["path"], "problem": shard["problem"]}


def workers(threads: int, most: int | None) -> dict:
    """What Ray is asked for: an actor for each GPU; else one for each `threads` cores, but one core stays free.

    Ray reads and writes files in tasks of their own. Where actors hold all cores, those wait for ever.
    """
    cluster = ray.cluster_resources()
    n = int(cluster.get("GPU", 0))
    needs = {"num_gpus": 1}
    if not n:
        n = int(cluster["CPU"] - 1) // threads
        needs = {"num_cpus": threads}
    if not 0 < (most or n) <= n:
        raise SystemExit(
            f"workers must be 1 to {n} here, got {most or n}: one core reads and writes; give more cores, or fewer "
            "workers or threads."
        )
    return {**needs, "concurrency": most or n}


def documents_of(shard: dict) -> dict[str, list]:
    """The ids and texts of a file of documents, which is read as bytes."""
    return pq.read_table(pa.BufferReader(shard["bytes"]), columns=["id", "text"]).to_pydict()


def reason(error: BaseException) -> str:
    """Why something failed, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0].rstrip(".")


def main() -> None:
    """Encode what is not finished."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="such as a folder, or e5-base+pcw@32k:vectors=window")
    parser.add_argument("documents", type=Path)
    parser.add_argument("windows", type=Path)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    args.windows.mkdir(parents=True, exist_ok=True)
    shards = sorted(args.documents.resolve().glob("*.parquet"))
    todo = [str(shard) for shard in shards if not (args.windows / shard.name).exists()]
    print(f"{len(shards)} shards, {len(shards) - len(todo)} finished")
    if not todo:
        return
    again = "then type the same command again; finished shards stay."
    ray.init(ignore_reinit_error=True)
    read = ray.data.read_binary_files(todo, include_paths=True, override_num_blocks=len(todo))
    encoded = read.map(
        Encoder,
        fn_constructor_args=(args.name,),
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
        **workers(args.threads, args.workers),
    )
    problems = []
    try:
        for row in encoded.map(write, fn_args=(args.windows.resolve(),)).iter_rows():
            if row["problem"]:
                problems.append(row["problem"])
    except ray.exceptions.RayError as error:
        raise SystemExit(f"{reason(error)}, {again}") from error
    if problems:
        raise SystemExit("\n".join(f"{problem}, {again}" for problem in problems))


if __name__ == "__main__":
    main()
