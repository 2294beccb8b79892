"""The common parts of our tasks' metadata."""

import json
from pathlib import Path

from mteb.abstasks.task_metadata import TaskMetadata
from mteb.types.statistics import DescriptiveStatistics

PAPER = "https://arxiv.org/abs/2404.12096"
# mteb's format, in which an author list is one line
_AUTHORS = (
    "Zhu, Dawei and Wang, Liang and Yang, Nan and Song, Yifan and Wu, Wenhao and Wei, Furu and Li, Sujian"
)
CITATION = f"""
@article{{zhu2024longembed,
  author = {{{_AUTHORS}}},
  journal = {{arXiv preprint arXiv:2404.12096}},
  title = {{LongEmbed: Extending Embedding Models for Long Context Retrieval}},
  year = {{2024}},
}}
"""

STATISTICS = Path(__file__).parent / "data" / "statistics"


class LongEmbedMetadata(TaskMetadata):
    """mteb's task metadata with descriptive statistics from this package."""

    @property
    def descriptive_stat_path(self) -> Path:
        """The file of this task's statistics, which exists for our default tasks."""
        return STATISTICS / f"{self.name}.json"

    @property
    def descriptive_stats(self) -> dict[str, DescriptiveStatistics] | None:
        """The statistics for each split: ours, or else mteb's for the same data, or else None."""
        same_data = (self.model_copy(update={"name": name}) for name in self.adapted_from or ())
        theirs = (TaskMetadata.descriptive_stat_path.fget(metadata) for metadata in same_data)  # type: ignore[attr-defined]
        for path in (self.descriptive_stat_path, *theirs):
            if path.exists():
                stats: dict[str, DescriptiveStatistics] = json.loads(path.read_text(encoding="utf-8"))
                return stats
        return None
