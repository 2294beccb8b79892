"""`compare` as a Python call: the candidates of models, on tasks or on one's own files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from mteb_longembed.comparing.candidates import BM25, Candidate, candidates_of, chunked, fused
from mteb_longembed.comparing.comparison import Comparison, Work, corpora_of
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.comparing.sampling import take_sample
from mteb_longembed.comparing.time_left import TimeBar
from mteb_longembed.encoders.engine.progress import shared_bar
from mteb_longembed.errors import InputError
from mteb_longembed.hub import silence
from mteb_longembed.reports.safe_files import make_folder
from mteb_longembed.retrieval.chunks import Chunker
from mteb_longembed.tasks.data import Data, DataOptions
from mteb_longembed.tasks.scoring import left_out, read_metric


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results."""
    print(sentence, file=sys.stderr)


@silence("mteb_longembed.encoders.engine.truncation")  # the table says how much each candidate reads
def compare(
    models: str | Sequence[str | Candidate],
    data: Data | str | Path | None = None,
    *,
    sample: int | None = None,
    metric: Sequence[str] = (),
    strategies: Sequence[str] | None = None,
    target: int | str | None = None,
    chunkers: Mapping[str, Chunker] | None = None,
    bm25: bool = True,
    passages: bool = True,
    budget: float | None = None,
    device: str | None = None,
    folder: str | Path = "results",
    show: bool = True,
    say: Callable[[str], None] = say_on_stderr,
    **options: Unpack[DataOptions],
) -> Comparison:
    """Run all ways of embedding long documents that fit a model, on the same data.

    Args:
        models: bases: aliases, hub ids or folders. A name with a strategy is one candidate.
        data: tasks, or one's own files: `mteb_longembed.Data`; or a folder as for `Data.from_folder`.
        sample: so many documents stay in each corpus: the judged ones, hard ones for BM25, and random ones. The task
            objects are changed.
        metric: such as nDCG@10; the first one ranks. Default: the task's main score.
        strategies: only these keys. Default: all that fit.
        target: the target length in tokens. Default: 8 times the trained length.
        chunkers: your own, by their names: each base, or a name whose base takes no part, also encodes each chunk on
            its own. See `mteb_longembed.search`.
        bm25: whether BM25 and the fusion with it take part.
        passages: whether candidates with one vector, and BM25, show the best window of a document, and not all of it,
            where passages are judged.
        budget: seconds; what would take longer is left out and named.
        device: where models run. Default: the best device of this machine.
        folder: finished work is kept here, in mteb's form.
        show: whether a progress bar is shown; those of other libraries never are.
        say: called with every sentence for the user.
        options: in place of `data`: `tasks`, `benchmarks` and `eval_splits`; or `corpus` with `queries` and `qrels`, or
            with `make`, the number of drawn queries; and the `language` of one's own files.

    Returns:
        The rows, best first, and the recommendation: what the page of `mteb-longembed compare` shows.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
    """
    make_folder("--output-folder", Path(folder))
    evaluations = Evaluations(Path(folder), [read_metric(text) for text in metric])
    candidates, unfit = _candidates([models] if isinstance(models, str) else models, strategies, target)
    bases = {candidate.base for candidate in candidates if candidate.is_base}
    encoders = [c for c in candidates if c.is_base or (c.is_named and c.base not in bases)]
    candidates += [chunked(encoder, *named) for encoder in encoders for named in (chunkers or {}).items()]
    if bm25:
        candidates = list(dict.fromkeys([*candidates, Candidate(BM25, "")]))
    if isinstance(data, Data) and options:
        raise InputError(f"compare needs one kind of data, got data= and {', '.join(options)}=.")
    for sentence in unfit:
        say(sentence)
    if not isinstance(data, Data):
        data = Data.from_options(data, Path(folder), options)
    if all(data.has_drawn_queries and candidate.matches_words for candidate in candidates):
        raise InputError(
            "compare needs at least one candidate, with drawn queries one that has vectors, got "
            f"{', '.join(candidate.name for candidate in candidates) or 'none'}."
        )
    names, counted = [task.metadata.name for task in data.tasks], []  # before a sample gets a name of its own
    for task in data.tasks:
        evaluations.prepare(task)
        counted += take_sample(task, sample) if sample is not None else []
    counted += [line for task in data.tasks for split in task.eval_splits for line in left_out(task, split)]
    for sentence in counted:
        say(sentence)
    work = Work(evaluations, data.tasks, corpora_of(data.tasks), budget, device, say, passages)
    work.measure(candidates)
    candidates = work.in_order(candidates)
    say(work.estimate(candidates))
    with TimeBar(work, candidates, show=show) as bar, shared_bar(bar):
        for index, candidate in enumerate(candidates):
            bar.begin(candidates[index:])
            work.run(candidate)
        if bm25 and (best := work.best_dense()) is not None and (fusion := fused(best)) is not None:
            work.run(fusion)
    result = work.result(names, counted, candidates, proxy=data.has_drawn_queries)
    result.left_out += unfit
    return result


def _candidates(
    models: Sequence[str | Candidate], strategies: Sequence[str] | None, target: int | str | None
) -> tuple[list[Candidate], list[str]]:
    """The candidates of all models, and sentences about strategies that do not fit one of them."""
    candidates: list[Candidate] = []
    unfit: list[str] = []
    for model in models:
        fitting = [model] if isinstance(model, Candidate) else candidates_of(model, strategies, target)
        candidates += fitting
        missing = [key for key in strategies or () if not any(f"+{key}@" in c.name for c in fitting)]
        unfit += [f"{key} does not fit {model} and is left out." for key in missing if len(fitting) > 1]
    return list(dict.fromkeys(candidates)), unfit
