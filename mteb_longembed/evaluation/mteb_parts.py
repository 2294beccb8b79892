"""Private names of mteb on which tasks and searches rely. Those of its registries are in `plugin/mteb_parts.py`."""

from __future__ import annotations

from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.errors import moved

try:
    from mteb._create_dataloaders import create_dataloader as create_dataloader
except ImportError:
    raise moved("mteb", "_create_dataloaders.create_dataloader") from None


def n_kept(task: AbsTaskRetrieval) -> int:
    """How many documents of each query a search on a task keeps, the best ones."""
    try:
        return int(task._top_k)
    except AttributeError:
        raise moved("mteb", "AbsTaskRetrieval._top_k") from None


def keep(task: AbsTaskRetrieval, n_documents: int) -> None:
    """Let a search on a task keep so many documents of each query."""
    n_kept(task)  # another name would be set without any effect
    task._top_k = n_documents
