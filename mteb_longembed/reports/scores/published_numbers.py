"""The benchmark's six columns, and the numbers of the paper and of its authors with their sources.

The four real tasks have the same published data under our names and under mteb's names. Passkey and Needle have
different data: this package generates ours, and mteb has the paper's own files. `Column.tasks` keeps them apart.

Source: Zhu et al. 2024, section 3, https://arxiv.org/abs/2404.12096.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean
from typing import Any

GENERATED = "generated"
PUBLISHED = "published"

# Tokens; the paper's {0.25, 0.5, 1, 2, 4, 8, 16, 32} x 1,024.
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
QUERIES_PER_LENGTH = 50  # of Passkey and Needle, generated or published
_LENGTH_SPLITS = tuple(f"test_{length}" for length in LENGTHS)


@dataclass(frozen=True)
class Column:
    """One column of the paper's table."""

    key: str  # its name in our tables
    tasks: Mapping[str, str]  # the MTEB task's name for each kind of data (`generated`, `published`)
    splits: tuple[str, ...]  # of a complete column
    metric: str  # the score's key in MTEB's result files

    @property
    def is_by_length(self) -> bool:
        """Whether the task has one split for each context length, and generated and published data."""
        return len(self.splits) > 1


def _column(name: str, lemb: str, splits: tuple[str, ...] = ("test",), metric: str = "ndcg_at_10") -> Column:
    tasks = {GENERATED: f"LongEmbed{name}", PUBLISHED: f"LEMB{lemb}Retrieval"}
    return Column(name, tasks, splits, metric)


COLUMNS = (
    _column("Passkey", "Passkey", _LENGTH_SPLITS, "ndcg_at_1"),
    _column("Needle", "Needle", _LENGTH_SPLITS, "ndcg_at_1"),
    _column("NarrativeQA", "NarrativeQA"),
    _column("QMSum", "QMSum"),
    _column("SummScreenFD", "SummScreenFD", ("validation",)),
    _column("2WikiMultihopQA", "WikimQA"),
)
COLUMN_BY_KEY = {column.key: column for column in COLUMNS}


def column_of(task: str) -> Column | None:
    """The column whose task this is, or a variant of it such as `LongEmbedNeedle-paraphrase`; None for other tasks.

    >>> column_of("LongEmbedQMSum-quick").metric
    'ndcg_at_10'
    """
    name = task.partition("-")[0]
    return next((column for column in COLUMNS if name in column.tasks.values()), None)


def metric_of(task: str) -> str:
    """The metric of a task: Acc@1 for Passkey, Needle and their variants, nDCG@10 for all others."""
    column = column_of(task)
    if column is None:
        return "ndcg_at_10"
    return column.metric


def split_length(split: str) -> int | None:
    """The context length in tokens of a split such as `test_4096`, None for other splits.

    >>> split_length("test_4096"), split_length("validation")
    (4096, None)
    """
    prefix, _, length = split.partition("_")
    if prefix == "test" and length.isdigit():
        return int(length)
    return None


PAPER = "paper"
AUTHORS = "authors"


@dataclass(frozen=True)
class PublishedLine:
    """One published row, all scores in percent; the model's name is in our grammar."""

    model: str
    origin: str  # `paper` (its tables) or `authors` (the result files of their repository)
    scores: Mapping[str, float]
    average: float  # as the paper prints it; computed for the authors' files
    by_length: Mapping[str, Mapping[int, float]]  # Acc@1 of Passkey and Needle; empty for the paper's tables


@cache
def _data() -> Any:
    path = files("mteb_longembed.reports") / "data" / "published.json"
    return json.loads(path.read_text(encoding="utf-8"))


def source(origin: str) -> str:
    """The source of the numbers of `paper`, `authors`, `task_words` or `task_chars`."""
    return str(_data()[origin]["source"]).rstrip(".")


@cache
def published_lines() -> tuple[PublishedLine, ...]:
    """All published rows, the paper's first.

    Source: Zhu et al. 2024, tables 2, 3 and the BM25 table, https://arxiv.org/abs/2404.12096, and the
        repository dwzhu-pku/LongEmbed at 033dc4a.
    Differs: the authors' file of E5-Mistral with NTK has an average of 76.7, but the paper prints 75.3. The paper
        prints 36.5 for GTR, but its six columns have an average of 37.6. We change none of these numbers.
    """
    lines = []
    for row in _data()[PAPER]["rows"]:
        scores = {column.key: float(row["scores"][column.key]) for column in COLUMNS}
        lines.append(PublishedLine(row["model"], PAPER, scores, float(row["scores"]["average"]), {}))
    for row in _data()[AUTHORS]["rows"]:
        by_length = {}
        for key, values in row["scores"].items():
            if COLUMN_BY_KEY[key].is_by_length:
                by_length[key] = {int(length): float(value) for length, value in values.items()}
        means = {key: fmean(values.values()) for key, values in by_length.items()}
        scores = {**row["scores"], **means}
        lines.append(PublishedLine(row["model"], AUTHORS, scores, fmean(scores.values()), by_length))
    return tuple(lines)


def position_kind(base: str) -> str | None:
    """`absolute`, `rotary` or `relative` for the paper's models, None for others."""
    kind: str | None = _data()["models"].get(base, {}).get("positions")
    return kind


def trained_len(base: str) -> int | None:
    """The trained length in tokens of the paper's models, None for others."""
    length: int | None = _data()["models"].get(base, {}).get("trained_len")
    return length


def task_statistics(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Published counts: with average words by column (`task_words`), or with characters by task (`task_chars`)."""
    rows: Mapping[str, Mapping[str, Any]] = _data()[kind]["rows"]
    return rows
