"""The benchmarks: `LongEmbed+`, our six tasks averaged as in the paper, and `NanoLongEmbed`."""

from collections.abc import Callable

from mteb.benchmarks.benchmark import Benchmark

from mteb_longembed.tasks.real.nano import NANO_TASKS
from mteb_longembed.tasks.registry import LONGEMBED
from mteb_longembed.tasks.task_metadata import CITATION, PAPER


def make_benchmarks() -> tuple[Benchmark, Benchmark]:
    """Build `LongEmbed+`, the mean over six tasks of Acc@1 (mean of the lengths) or nDCG@10, and `NanoLongEmbed`.

    Source: LongEmbed, table 2 (https://arxiv.org/abs/2404.12096); HAKARI-Bench (https://arxiv.org/abs/2606.22778).
    Differs: mteb's own `LongEmbed` uses the published Passkey and Needle data. Ours are generated. It has no columns by
        length: mteb 2.26 joins these by the name of a model alone, so tables with experiments may not have them.
    """
    whole = Benchmark(
        name="LongEmbed+",
        display_name="Long-context Retrieval, generated and real",
        tasks=tuple(task() for task in LONGEMBED),
        description="Retrieval over documents of 256 to 32,768 tokens and more: two generated tasks at eight "
        "lengths, where only the length differs, and four tasks with real documents.",
        reference=PAPER,
        citation=CITATION,
    )
    nano = Benchmark(
        name="NanoLongEmbed",
        display_name="Long-context Retrieval in minutes",
        tasks=tuple(task() for task in NANO_TASKS),
        description="The six tasks of LongEmbed with 998 queries about 2,788 documents.",
        reference="https://arxiv.org/abs/2606.22778",
        citation=CITATION,
    )
    return whole, nano


def all_benchmarks(build: Callable[[], dict[str, Benchmark]]) -> dict[str, Benchmark]:
    """Return mteb's benchmarks and ours, by name."""
    return {**build(), **{benchmark.name: benchmark for benchmark in make_benchmarks()}}
