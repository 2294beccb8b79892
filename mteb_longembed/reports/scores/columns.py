"""The benchmark's six columns: which tasks and splits they have, and their metrics.

The four real tasks have the same published data under our names and under mteb's names. Passkey and Needle have
different data: this package generates ours, and mteb has the paper's own files. `Column.tasks` keeps them apart.

Source: Zhu et al. 2024, section 3, https://arxiv.org/abs/2404.12096.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
AVERAGE = "Average"
#: The titles of all scores: the six columns and their average.
SCORE_KEYS = (*(column.key for column in COLUMNS), AVERAGE)


def column_of(task: str) -> Column | None:
    """The column whose task this is, None for other tasks.

    >>> column_of("LongEmbedQMSum").metric
    'ndcg_at_10'
    """
    return next((column for column in COLUMNS if task in column.tasks.values()), None)


def split_length(split: str) -> int | None:
    """The context length in tokens of a split such as `test_4096`, None for other splits.

    >>> split_length("test_4096"), split_length("validation")
    (4096, None)
    """
    prefix, _, length = split.partition("_")
    if prefix == "test" and length.isdigit():
        return int(length)
    return None
