"""Ids and texts as mteb's tables: in memory, or on disk for corpora larger than memory."""

import uuid
from collections.abc import Iterable, Mapping

import pyarrow
from datasets import Dataset
from datasets.table import InMemoryTable

from .stored_texts import SCHEMA, batches, stored_texts


def text_table(texts: Mapping[str, str]) -> Dataset:
    """Return a table of ids and texts in memory, in chunks: building one array of all texts takes twice its size."""
    return _dataset(pyarrow.Table.from_batches(batches(texts.items()), schema=SCHEMA))


def stored_table(rows: Iterable[tuple[str, str]]) -> Dataset:
    """Return a table on disk, as `stored_texts` does."""
    return _dataset(stored_texts(rows))


def _dataset(table: pyarrow.Table) -> Dataset:
    # with a fingerprint the datasets library does not copy everything to hash it
    return Dataset(InMemoryTable(table), fingerprint=uuid.uuid4().hex)
