"""BEIR's 15 tasks with the lengths of their queries and documents in words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

METRIC = "ndcg_at_10"

# CQADupstack is one task in BEIR and twelve tasks in MTEB.
_CQADUPSTACK = "CQADupstackRetrieval"
_FORUMS = (
    "Android", "English", "Gaming", "Gis", "Mathematica", "Physics",
    "Programmers", "Stats", "Tex", "Unix", "Webmasters", "Wordpress",
)  # fmt: skip
CQADUPSTACK_PARTS = tuple(f"CQADupstack{forum}Retrieval" for forum in _FORUMS)


@dataclass(frozen=True)
class BeirTask:
    """One BEIR task.

    Args:
        task: Its name in MTEB.
        split: The split that BEIR evaluates.
        query_words: Average words of a query.
        document_words: Average words of a document.
    """

    task: str
    split: str
    query_words: float
    document_words: float

    @property
    def parts(self) -> tuple[str, ...]:
        """The MTEB tasks whose mean is this task's score, if it has no result file."""
        return CQADUPSTACK_PARTS if self.task == _CQADUPSTACK else ()


@cache
def beir_tasks() -> tuple[BeirTask, ...]:
    """The 15 tasks in BEIR's order.

    Source: Thakur et al. 2021, table 1, average word lengths, https://arxiv.org/abs/2104.08663.
    """
    data = json.loads(
        (files("mteb_longembed.reports.public") / "data" / "beir.json").read_text(encoding="utf-8")
    )
    return tuple(BeirTask(**row) for row in data["rows"])


BEIR_TASKS = frozenset(task.task for task in beir_tasks()) | frozenset(CQADUPSTACK_PARTS)
