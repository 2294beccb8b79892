"""`compare` as a Python call: the candidates of models, on tasks or on one's own files."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from mteb_longembed.data.check import Passages
from mteb_longembed.data.sources import Data, DataOptions
from mteb_longembed.encoders.engine.progress import shared_bar
from mteb_longembed.encoders.modules.token_weights import Rule
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.evaluation.scoring import left_out, read_metric
from mteb_longembed.files import make_folder
from mteb_longembed.hub import silence
from mteb_longembed.retrieval.chunks import Chunker

from .candidates import BM25, Candidate, candidates_of, chunked, fused, short_names
from .comparison import Comparison, Outcome, make_comparison
from .costs import Key
from .evaluate import CandidateError, Evaluated, Ground, OverBudgetError, evaluate, in_order
from .evaluations import Evaluations
from .ranking import pair
from .sampling import take_sample
from .time_left import CandidateBar


class Options(DataOptions, total=False):
    """The options of `compare`, beside those that say where the data are.

    Args:
        sample: so many documents stay in each corpus: the judged ones, hard ones for BM25, and random ones. The task
            objects are changed.
        metric: such as nDCG@10; the first one ranks. Default: the task's main score.
        strategies: only these keys. Default: all that fit.
        target: the target length in tokens. Default: 8 times the trained length.
        chunkers: your own, by their names: each base, or a name whose base takes no part, also encodes each chunk on
            its own. See `mteb_longembed.search`.
        bm25: whether BM25 and the fusion with it take part. Default: yes.
        passages: whether candidates with one vector, and BM25, show the best window of a document, and not all of it,
            where passages are judged. Default: yes.
        ignore_identical_ids: whether a document with the id of the query does not count (BEIR's rule). Default: no.
        budget: seconds; what would take longer is left out and named.
        device: where models run. Default: the best device of this machine.
    """

    sample: int | None
    metric: Sequence[str]
    strategies: Sequence[str] | None
    target: int | str | None
    chunkers: Mapping[str, Chunker] | None
    bm25: bool
    passages: bool
    ignore_identical_ids: bool
    budget: float | None
    device: str | None


@dataclass(frozen=True)
class _Settings:
    """The options with their defaults."""

    sample: int | None = None
    metric: Sequence[str] = ()
    strategies: Sequence[str] | None = None
    target: int | str | None = None
    chunkers: Mapping[str, Chunker] | None = None
    bm25: bool = True
    passages: bool = True
    ignore_identical_ids: bool = False
    budget: float | None = None
    device: str | None = None


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results."""
    print(sentence, file=sys.stderr)


@silence("mteb_longembed.encoders.engine.truncation")  # the table says how much each candidate reads
def compare(
    models: str | Sequence[str | Candidate],
    data: Data | str | Path | None = None,
    *,
    folder: str | Path = "results",
    show: bool = True,
    on_message: Callable[[str], None] = say_on_stderr,
    **options: Unpack[Options],
) -> Comparison:
    """Run all ways of embedding long documents that fit a model, on the same data.

    Each candidate is loaded once, and only one model is in memory.

    Args:
        models: bases: aliases, hub ids or folders. A name with a strategy is one candidate.
        data: tasks, or one's own files: `mteb_longembed.Data`; or a folder as for `Data.from_folder`.
        folder: finished work is kept here, in mteb's form.
        show: whether a progress bar is shown; those of other libraries never are.
        on_message: called with every sentence for the user.
        options: those of `Options`; and in place of `data`: `tasks`, `benchmarks` and `eval_splits`; or `corpus` with
            `queries` and `qrels`, or with `n_synthetic_queries`, the number of sentences that are drawn from it as
            queries; and the `language` of one's own files.

    Returns:
        The scores, the costs, the rows, best first, and the recommendation: what the page of `mteb-longembed compare`
        shows.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
    """
    began = time.monotonic()
    settings, of_data = _split_options(options)
    make_folder("--output-folder", Path(folder))
    evaluations = Evaluations(
        Path(folder),
        [read_metric(text) for text in settings.metric],
        ignore_identical_ids=settings.ignore_identical_ids,
    )
    if isinstance(models, str):
        models = [models]
    candidates, unfit = _candidates(models, settings)
    if isinstance(data, Data) and of_data:
        raise InputError(f"compare needs one kind of data, got data= and {', '.join(of_data)}=.")
    for sentence in unfit:
        on_message(sentence)
    if not isinstance(data, Data):
        data = Data.from_options(data, Path(folder), of_data)
    if all(data.has_synthetic_queries and candidate.matches_words for candidate in candidates):
        raise InputError(
            "compare needs at least one candidate, with synthetic queries one that has vectors, got "
            f"{', '.join(candidate.name for candidate in candidates) or 'none'}."
        )
    names = [task.metadata.name for task in data.tasks]  # before a sample gets a name of its own
    counted = _prepare(data, evaluations, settings.sample)
    for sentence in counted:
        on_message(sentence)
    ground = replace(_ground(data, evaluations, settings, on_message), rules=_rules(candidates))
    run = _Run(ground, began, settings.budget)
    labels = short_names(candidates)
    with CandidateBar(len(candidates), show=show) as bar, shared_bar(bar):
        for candidate in in_order(candidates):
            bar.begin(labels[candidate.name], run.n_tokens)
            run.add(candidate)
            bar.finish()
        fusion = None
        if settings.bm25:
            fusion = run.fusion()
        if fusion is not None:
            bar.begin("the fusion with BM25", 0)
            run.add(fusion)
    if not run.done:
        raise InputError(
            "compare must finish at least one candidate, got none: give a larger --budget or fewer tasks "
            f"({', '.join([*run.left_out, *run.skipped][:1])})."
        )
    outcome = Outcome(
        done=run.done,
        asked=candidates,
        skipped=run.skipped,
        left_out=[*run.left_out, *unfit],
        counted=counted,
    )
    return make_comparison(outcome, ground, names, synthetic_queries=data.has_synthetic_queries)


class _Run:
    """What has run of a comparison, and what has not and why."""

    def __init__(self, ground: Ground, began: float, budget: float | None) -> None:
        self.ground = ground
        self.done: list[Evaluated] = []
        self.skipped: list[str] = []
        self.left_out: list[str] = []
        #: about how many tokens a candidate reads.
        self.n_tokens = 0
        self._encoded: set[str] = set()
        self._until = math.inf
        if budget is not None:
            self._until = began + budget

    def add(self, candidate: Candidate) -> None:
        """Run a candidate, or say why not."""
        is_encoded = candidate.encoder in self._encoded
        try:
            evaluated = evaluate(candidate, self.ground, self.budget_left(), is_encoded=is_encoded)
        except OverBudgetError as error:
            self.skipped.append(str(error))
            return
        except CandidateError as error:
            self.left_out.append(f"{candidate.name} is left out: {error}")
            self.ground.on_message(self.left_out[-1])
            return
        self.done.append(evaluated)
        self._encoded.add(candidate.encoder)
        self.n_tokens = max(self.n_tokens, evaluated.cost.tokens_of(self.ground.splits))

    def budget_left(self) -> float:
        """Seconds, infinite without a budget."""
        return self._until - time.monotonic()

    @property
    def has_bm25(self) -> bool:
        """Whether BM25 has run."""
        return any(one.candidate.name == BM25 for one in self.done)

    def fusion(self) -> Candidate | None:
        """The candidate with the highest mean so far, with BM25's scores added; None if BM25 could not run.

        Of equal ones it is the first by name.
        """
        if not self.has_bm25:
            return None
        dense = sorted(
            (one.candidate for one in self.done if one.candidate.name != BM25), key=lambda c: c.name
        )
        if not dense:
            return None
        paired = pair(pd.concat([one.scores for one in self.done]), dense)
        return fused(max(dense, key=lambda candidate: paired.mean_only(candidate.name)))


def _split_options(options: Options) -> tuple[_Settings, DataOptions]:
    """The options of a comparison, and those that say where its data are."""
    own: dict[str, Any] = dict(options)
    known = {field.name for field in fields(_Settings)}
    settings = _Settings(**{key: value for key, value in own.items() if key in known})
    of_data: Any = {key: value for key, value in own.items() if key not in known}
    return settings, of_data


def _candidates(models: Sequence[str | Candidate], settings: _Settings) -> tuple[list[Candidate], list[str]]:
    """The candidates of all models, and sentences about strategies that do not fit one of them."""
    candidates: list[Candidate] = []
    unfit: list[str] = []
    for model in models:
        if isinstance(model, Candidate):
            candidates.append(model)
            continue
        fitting = candidates_of(model, settings.strategies, settings.target)
        candidates += fitting
        if len(fitting) > 1:
            names = [candidate.name for candidate in fitting]
            missing = [key for key in settings.strategies or () if not _has_strategy(names, key)]
            unfit += [f"{key} does not fit {model} and is left out." for key in missing]
    bases = {candidate.base for candidate in candidates if candidate.is_base}
    encoders = [c for c in candidates if c.is_base or (c.is_named and c.base not in bases)]
    for encoder in encoders:
        for key, chunker in (settings.chunkers or {}).items():
            candidates.append(chunked(encoder, key, chunker))
    if settings.bm25:
        candidates.append(Candidate(BM25, ""))
    return list(dict.fromkeys(candidates)), unfit


def _rules(candidates: Sequence[Candidate]) -> dict[str, list[Rule]]:
    """The rules of corpus weights, by the name of the encoder whose passes they share."""
    rules: dict[str, list[Rule]] = {}
    for candidate in candidates:
        rule = candidate.weights
        if rule is not None and rule not in rules.setdefault(candidate.encoder, []):
            rules[candidate.encoder].append(rule)
    return rules


def _has_strategy(names: Sequence[str], key: str) -> bool:
    return any(f"+{key}@" in name for name in names)


def _prepare(data: Data, evaluations: Evaluations, sample: int | None) -> list[str]:
    """Load the data, and take a sample of them; sentences about what is not there or not scored."""
    counted: list[str] = []
    for task in data.tasks:
        evaluations.prepare(task)
        if sample is not None:
            counted += take_sample(task, sample)
    for task in data.tasks:
        for split in task.eval_splits:
            counted += left_out(task, split)
    return counted


def _ground(
    data: Data, evaluations: Evaluations, settings: _Settings, on_message: Callable[[str], None]
) -> Ground:
    """The splits, their documents and their judged passages; a `DataError` if a split has no document."""
    splits = {}
    corpora = {}
    judged: dict[Key, Passages] = {}
    for task in data.tasks:
        for split in task.eval_splits:
            key = (task.metadata.name, split)
            parts = [task.dataset[subset][split]["corpus"] for subset in task.hf_subsets]
            if not any(map(len, parts)):
                raise DataError(f"{', '.join(key)}: a corpus needs at least one document, got none.")
            splits[key] = (task, split)
            corpora[key] = parts
            # a generated split is made again for them
            if hasattr(task, "passages"):
                passages = task.passages(split)
                if passages:
                    judged[key] = passages
    return Ground(evaluations, splits, corpora, judged, settings.device, settings.passages, on_message)
