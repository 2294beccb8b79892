"""An index on disk: one Parquet file with the documents and their vectors, which is replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from filelock import FileLock

from mteb_longembed.errors import DataError, InputError, StorageError

from .vectors import Block

#: The file of an index. It is replaced, so a reader sees the old or the new state.
CURRENT = "index.parquet"
_LOCK, _PART = ".lock", ".index.parquet.part"
#: Form 2 is that of version 0.3, without a checksum and without the model's folder.
_FORM, _FORMS = "3", ("2", "3")
#: A document has a number of vectors, and their numbers one vector after the other.
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.large_string()),
        ("vectors", pa.int64()),
        ("numbers", pa.large_list(pa.float32())),
    ]
)


@dataclass(frozen=True)
class IndexedModel:
    """The model of an index."""

    name: str  #: canonical
    revision: str
    folder: str = ""  #: that of a local base, seen from the folder of the index; empty for a model of the hub
    settings: str = ""  #: what follows the base in a name that loads the model

    def is_named_as(self, other: IndexedModel) -> bool:
        """Whether the names are of one model. A local base may have another name now, because its folder has moved."""
        (base, *tail), (other_base, *other_tail) = (model.name.partition("+") for model in (self, other))
        moved = base.startswith("local/") and other_base.startswith("local/")
        return tail == other_tail and (moved or base == other_base)


@dataclass(frozen=True)
class StoredIndex:
    """What an index folder holds."""

    model: IndexedModel
    texts: dict[str, str]  #: by id
    documents: list[np.ndarray]  #: `[vectors, d]` float32 for each of the first texts; the others have none
    checksum: str  #: of all of this; it also names the state of the folder


class _Checksum:
    """XXH3 (128 bits) over the contents of an index, whatever the sizes of the blocks in which they come."""

    def __init__(self, model: IndexedModel) -> None:
        self._texts, self._numbers = xxhash.xxh3_128(repr((_FORM, model)).encode()), xxhash.xxh3_128()

    def add(self, ids: list[str], texts: list[str], counts: np.ndarray, numbers: np.ndarray) -> None:
        for key, text, count in zip(ids, texts, counts.tolist(), strict=True):
            contents = [key.encode(), text.encode()]
            for part in (f"{len(contents[0])} {len(contents[1])} {count} ".encode(), *contents):
                self._texts.update(part)
        self._numbers.update(np.ascontiguousarray(numbers).data)

    def hexdigest(self) -> str:
        return self._texts.hexdigest() + self._numbers.hexdigest()


def write_index(
    folder: Path, model: IndexedModel, texts: Mapping[str, str], blocks: Iterable[Block], expected: str | None
) -> str:
    """Write an index, see `Searcher.save`; return its checksum. A process that reads meanwhile gets the state before.

    Texts behind the last block have no vectors. `expected` is the checksum of the only state that may be replaced.
    """
    path, part = folder / CURRENT, folder / _PART
    others = {file.name for file in folder.iterdir()} - {_LOCK, _PART} if folder.is_dir() else folder.exists()
    if others and not path.is_file():
        raise InputError(f"the folder of an index must be new, empty or an index, got {folder}.")
    ids, contents, checksum = list(texts), list(texts.values()), _Checksum(model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK):
            if path.is_file():
                _check_replaceable(path, expected)
            part.unlink(missing_ok=True)
            try:
                # `x` opens no file that exists, so it follows no link
                with (
                    part.open("xb") as stream,
                    pq.ParquetWriter(stream, _SCHEMA, use_dictionary=False) as writer,
                ):
                    first = 0
                    without = Block(0, np.zeros(len(ids), int), np.zeros((0, 0), np.float32))
                    for _, counts, rows in (*blocks, without):
                        counts = counts[: len(ids) - first]
                        here = slice(first, first + len(counts))
                        ends = pa.array(np.cumsum([0, *counts]) * rows.shape[1])
                        numbers = pa.LargeListArray.from_arrays(ends, pa.array(rows.ravel()))
                        writer.write_batch(
                            pa.record_batch([ids[here], contents[here], counts, numbers], schema=_SCHEMA)
                        )
                        checksum.add(ids[here], contents[here], counts, rows.ravel())
                        first += len(counts)
                    about = {"form": _FORM, "model": model.name, "checksum": checksum.hexdigest()}
                    about |= {key: getattr(model, key) for key in ("revision", "folder", "settings")}
                    writer.add_key_value_metadata(about)
                with part.open("rb+") as written:
                    os.fsync(written.fileno())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"the index cannot be written to {folder} ({error.strerror or error}): free disk space or allow writing "
            "there; an index that was there before is unchanged."
        ) from error
    return checksum.hexdigest()


def _check_replaceable(path: Path, expected: str | None) -> None:
    try:
        about = _about(pq.read_metadata(path).metadata)
        checksum = about.get("checksum", "")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} is no index of ours or is damaged, so it is not replaced: remove it, or give another folder."
        ) from error
    if expected is not None and checksum != expected:
        raise InputError(
            f"the index in {path.parent} was changed by another searcher, whose work would be lost: open it again "
            "and repeat the change, or save to another folder."
        )


def _about(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """What an index says about itself. Raises KeyError if it is none."""
    about = {
        key.decode(): value.decode() for key, value in (metadata or {}).items() if key != b"ARROW:schema"
    }
    return {key: about[key] for key in ("form", "model", "revision")} | about


def read_index(folder: Path) -> StoredIndex:
    """Read an index. Raises DataError if it is none, not complete or damaged."""
    path = folder / CURRENT
    if not path.is_file():
        raise DataError(
            f"{folder} must be a folder that Searcher.save or search --index wrote: it has no {CURRENT}."
        )
    texts: dict[str, str] = {}
    documents: list[np.ndarray] = []
    n_rows = 0
    try:
        with path.open("rb") as stream:  # opened once: a writer may replace the file meanwhile
            file = pq.ParquetFile(stream)
            about = _about(file.metadata.metadata)
            if about["form"] not in _FORMS:
                raise DataError(
                    f"{folder} has form {about['form']} of an index, and this version reads {' and '.join(_FORMS)}."
                )
            settings = about.get("settings", "".join(about["model"].partition("+")[1:]))
            model = IndexedModel(about["model"], about["revision"], about.get("folder", ""), settings)
            checksum = _Checksum(model)
            for batch in file.iter_batches(batch_size=1024):
                ids, contents = batch["id"].to_pylist(), batch["text"].to_pylist()
                texts |= zip(ids, contents, strict=True)
                counts, numbers = batch["vectors"].to_numpy(), batch["numbers"].flatten().to_numpy()
                checksum.add(ids, contents, counts, numbers)
                n_rows += len(ids)
                lengths = batch["numbers"].value_lengths().to_numpy()
                if (lengths * counts.sum() != counts * len(numbers)).any():
                    raise ValueError("vectors and numbers do not agree")
                if counts.any():
                    documents += np.split(numbers.reshape(counts.sum(), -1), np.cumsum(counts)[:-1])
                if not np.isfinite(numbers).all():
                    raise ValueError("a number is not finite")
        if len(texts) < n_rows:
            raise ValueError("an id comes twice")
        if about.get("checksum", "" if about["form"] == "2" else None) not in ("", checksum.hexdigest()):
            raise ValueError("its checksum is wrong")
        return StoredIndex(model, texts, documents, about.get("checksum", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"the index in {folder} is not complete or damaged ({str(error)[:120]}): build it again."
        ) from error
