"""An index on disk: documents in Parquet, vectors in FAISS's form, and one small file that names the current pair."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from mteb_longembed.errors import DataError, InputError, StorageError

from .vectors import Block
from .windows_index import flat_index

#: The file that names the folder of the current state. It is replaced last, so a reader sees the old or the new state.
CURRENT = "index.json"
_LOCK = ".lock"
_FORM = 1


@dataclass(frozen=True)
class StoredIndex:
    """What an index folder holds."""

    name: str  #: canonical name of the model
    revision: str
    texts: dict[str, str]  #: by id, in their order
    counts: list[int] | None  #: vectors of each document; None for a search without vectors
    rows: np.ndarray  #: `[vectors, d]` float32

    def documents(self) -> list[np.ndarray]:
        """The vectors of each document."""
        return np.split(self.rows, np.cumsum(self.counts or [])[:-1]) if self.texts else []

    def check(self, meta: Any) -> None:
        """Raise DataError unless this model made the index."""
        if (meta.name, meta.revision) != (self.name, self.revision):
            raise DataError(
                f"the index was made by {self.name} at revision {self.revision}, and the model is now {meta.name} at "
                f"{meta.revision}: build the index again."
            )


def write_index(folder: Path, meta: Any, texts: Mapping[str, str], blocks: Iterable[Block] | None) -> None:
    """Write an index; see `Searcher.save`. A process that reads meanwhile gets the state before."""
    if folder.exists() and not (
        folder.is_dir() and ((folder / CURRENT).is_file() or not any(folder.iterdir()))
    ):
        raise InputError(f"the folder of an index must be new, empty or an index, got {folder}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK):
            before = _current(folder)
            made = folder / f"{before.get('number', 0) + 1}.{os.getpid()}"
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            try:
                columns: dict[str, Any] = {"id": list(texts), "text": list(texts.values())}
                if blocks is not None:
                    index, columns["vectors"] = flat_index(blocks)
                    faiss.write_index(index or faiss.IndexFlatIP(1), str(made / "vectors.faiss"))
                pq.write_table(pa.table(columns), made / "documents.parquet")
                entry = {
                    "form": _FORM,
                    "number": before.get("number", 0) + 1,
                    "folder": made.name,
                    "model": meta.name,
                    "revision": meta.revision,
                    "documents": len(texts),
                    "vectors": None if blocks is None else sum(columns["vectors"]),
                }
                fresh = made / CURRENT
                fresh.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
                for file in made.iterdir():
                    with file.open("rb+") as stream:
                        os.fsync(stream.fileno())
                fresh.replace(folder / CURRENT)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
            # readers may still hold the state before; everything older, and what killed writers left, can go
            for old in folder.iterdir():
                if old.is_dir() and old.name not in (made.name, before.get("folder")):
                    shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"the index cannot be written to {folder} ({error.strerror or error}): free disk space or allow writing "
            "there; an index that was there before is unchanged."
        ) from error


def read_index(folder: Path) -> StoredIndex:
    """Read an index. Raises DataError if it is none, or not complete."""
    entry = _current(folder)
    if not entry:
        raise DataError(
            f"{folder} must be a folder that Searcher.save or search --index wrote: it has no {CURRENT}."
        )
    inner = folder / str(entry.get("folder"))
    try:
        if entry["form"] != _FORM:
            raise DataError(f"{folder} has form {entry['form']} of an index, and this version reads {_FORM}.")
        table = pq.read_table(inner / "documents.parquet")
        texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
        counts, rows = None, np.zeros((0, 0), np.float32)
        if entry["vectors"] is not None:
            counts = table["vectors"].to_pylist()
            index = faiss.read_index(str(inner / "vectors.faiss"))
            rows = index.reconstruct_n(0, index.ntotal)
        complete = len(texts) == entry["documents"] and (
            counts is None or sum(counts) == len(rows) == entry["vectors"]
        )
        name, revision = str(entry["model"]), str(entry["revision"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the index in {folder} is not complete ({str(error)[:120]}): build it again."
        ) from error
    if not complete:
        raise DataError(f"the index in {folder} is not complete (its numbers differ): build it again.")
    return StoredIndex(name, revision, texts, counts, rows)


def _current(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / CURRENT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{folder / CURRENT} cannot be read ({str(error)[:80]}): build the index again."
        ) from error
    return found if isinstance(found, dict) else {}
