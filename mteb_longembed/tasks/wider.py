"""The benchmark object `LongEmbed++`: real long documents in eleven languages, from tasks that mteb already has.

The rule for its tasks uses the statistics that mteb ships. Documents have at least 8,000 characters on average. A
task, or each language of a task with several, has at most 200 million characters. The data are public, and their
licence allows free use. No task has the same documents as another task here or in `LongEmbed+`.
"""

from __future__ import annotations

from mteb.benchmarks.benchmark import Benchmark, BenchmarkAggregation
from mteb.get_tasks import get_task

from mteb_longembed.tasks.metadata import CITATION, PAPER

NAME = "LongEmbed++"

# For each task, the subsets that follow the rule; None if it has no subsets. MultiLongDocRetrieval has up to 200,000
# documents for a language, so we take its reranking form.
TASKS: dict[str, list[str] | None] = {
    "MultiLongDocReranking": ["ar", "es", "fr", "hi", "it", "pt", "ru", "zh"],
    "AILACasedocs": None,
    "BillSumUS": None,
    "GovReport": None,
    "LegalQuAD": None,
    "NLPJournalAbsArticleRetrieval.V2": None,
    "BrightBiologyLongRetrieval": None,
    "BrightEconomicsLongRetrieval": None,
    "BrightRoboticsLongRetrieval": None,
    "BrightStackoverflowLongRetrieval": None,
}


def make_wider_benchmark() -> Benchmark:
    """A new `LongEmbed++`: the mean over the tasks, each with its main score in mteb.

    Source: the tasks' own papers (see their metadata). LongEmbed, section 3, says why documents must be long
    (https://arxiv.org/abs/2404.12096).
    """
    return Benchmark(
        name=NAME,
        display_name="Long-context Retrieval, wider",
        tasks=tuple(get_task(name, hf_subsets=subsets) for name, subsets in TASKS.items()),
        description=(
            "Retrieval and reranking over real documents of 8,000 characters and more on average: laws, court "
            "decisions, government reports, papers, encyclopaedias and web pages, in eleven languages."
        ),
        reference=PAPER,
        citation=CITATION,
        aggregations=(
            BenchmarkAggregation.MEAN_TASK,
            BenchmarkAggregation.MEAN_TASK_TYPE,
            BenchmarkAggregation.TASK_TYPES,
        ),
    )
