"""The comparison itself: it runs candidates on tasks, cell by cell, within a budget, and keeps finished evaluations."""

from __future__ import annotations

import gc
import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from statistics import fmean

import mteb
import torch
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models import ModelMeta, MTEBModels
from sentence_transformers.util import get_device_name

from mteb_longembed.errors import DataError, InputError, LongEmbedError
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.statistics.sensitivity import Sensitivity
from mteb_longembed.tasks.beir import LocalFiles
from mteb_longembed.tasks.data_files import Passages

from .by_query import QueryDifference, differences, sensitivities
from .candidates import BM25, Candidate
from .costs import ROUNDS, Cost, Key, LongModel, chunk_texts, count, sample, speed
from .evaluations import Evaluations, MetricScores
from .passages import DEPTH, PassageScores, first_answers, score_passages, show_passages
from .ranking import Recommendation, Row, expected, rank, recommend, recommendable

_SECONDS_PER_MINUTE = 60.0
#: A document's id and score in a ranking on disk, about.
_RANKED_BYTES = 40
#: Models stay in memory together while their weights are no larger.
_KEPT_BYTES = 1 << 30
#: A candidate with one of these errors is left out. OSError: a name too long for mteb's folder.
_LEFT_OUT = (LongEmbedError, ImportError, OSError)


@dataclass
class Comparison:
    """The result of a comparison."""

    rows: list[Row]  # the candidates, the best first
    recommendation: Recommendation  # what to do
    tasks: list[str]  # names of the tasks
    n_queries: int  # queries that all candidates answered
    n_documents: int  # documents of all splits
    skipped: list[str]  # one sentence for each candidate that did not fit into the budget
    left_out: list[str]  # one sentence for each candidate that could not run
    #: wall time of each candidate's evaluations, with the time to read stored embeddings.
    seconds: dict[str, float]
    proxy: bool  # whether the queries were drawn from the documents
    tokens_encoded: int  # tokens that were encoded for this comparison, without probes
    tokens_shared: int  # tokens whose embeddings were known already, from other candidates or earlier runs
    tokens_windows: int  # tokens of windows for passages that were encoded, beside those
    metrics: list[str]  # what was scored, the first one ranks; if each task has its own, all of them
    counted: list[str]  # one sentence for each kind of query or document that is not scored
    identity: str  # a hash of data, candidates and metrics
    written: str  # when it was made, in UTC
    #: for the base of the best and for BM25, the queries on which the best differs most from it.
    queries: dict[str, list[QueryDifference]]
    #: the position sensitivity by candidate and task, with its number of queries, where depths are known.
    sensitivities: list[tuple[str, str, int, Sensitivity]]
    passages: dict[str, PassageScores]  # by candidate, where tasks know which passages answer


@dataclass
class Work:
    """The state of one comparison: what is done, and what is left."""

    evaluations: Evaluations
    tasks: Sequence[AbsTaskRetrieval]
    corpora: Mapping[Key, Sequence[Dataset]]
    budget: float | None
    device: str | None
    say: Callable[[str], None]
    passages_of_windows: bool = True
    started: float = field(default_factory=time.monotonic)
    scores: dict[Candidate, dict[Key, MetricScores]] = field(default_factory=dict)
    #: By encoder: search parameters change no vector, and no speed of encoding.
    costs: dict[str, Cost] = field(default_factory=dict)
    #: The encoders whose documents are encoded.
    encoded: set[str] = field(default_factory=set)
    #: By candidate: how well its passages answer.
    passages: dict[str, PassageScores] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    tokens_encoded: int = 0
    tokens_shared: int = 0
    tokens_windows: int = 0
    #: Models that stay in memory until their evaluations have run.
    loaded: dict[str, MTEBModels] = field(default_factory=dict)

    def splits(self) -> dict[Key, tuple[AbsTaskRetrieval, str]]:
        """Each task with each of its splits."""
        return {(one.metadata.name, split): (one, split) for one in self.tasks for split in one.eval_splits}

    @cached_property
    def judged(self) -> dict[Key, Passages]:
        """The passages that answer, of the splits that know them. A generated split is made again for them."""
        judged = {
            key: task.passages(split)
            for key, (task, split) in self.splits().items()
            if hasattr(task, "passages")
        }
        return {key: passages for key, passages in judged.items() if passages}

    def cost(self, candidate: Candidate) -> Cost:
        """The cost of a candidate; that of BM25 is nothing."""
        return self.costs.get(candidate.encoder, Cost())

    def expected_seconds(self, candidate: Candidate, splits: Sequence[Key] | None = None) -> float:
        """The time to encode the documents: 0 if they need no encoding any more, infinite if it is not known."""
        cost = self.cost(candidate)
        if not candidate.encoder or candidate.encoder in self.encoded:
            return 0.0
        n_tokens = cost.tokens_of(splits or self.corpora) + self.window_tokens(candidate, splits)
        return n_tokens / cost.tokens_per_second if cost.tokens_per_second else math.inf

    def window_tokens(self, candidate: Candidate, splits: Sequence[Key] | None = None) -> int:
        """About the most tokens of windows for passages: with one vector, documents that judged queries can show."""
        cost, tokens = self.cost(candidate), 0.0
        if cost.vectors != 1 or not self.passages_of_windows:
            return 0
        for key in (key for key in splits or self.corpora if key in self.judged):
            n_documents = sum(map(len, self.corpora[key]))
            tokens += cost.tokens_of([key]) * min(1, DEPTH * len(self.judged[key]) / n_documents)
        return round(tokens)

    def budget_left(self) -> float:
        """Seconds, infinite without a budget."""
        return math.inf if self.budget is None else self.budget - (time.monotonic() - self.started)

    def in_order(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """First what costs nothing, then what the user named, then the rest; the cheap ones before the dear ones."""
        seconds = {candidate: self.expected_seconds(candidate) for candidate in candidates}
        return sorted(candidates, key=lambda c: (seconds[c] > 0, not c.is_named, seconds[c]))

    def planned_seconds(self, candidates: Sequence[Candidate]) -> float:
        """The expected time of those that the budget allows; each encoder counts once."""
        by_encoder = {candidate.encoder: self.expected_seconds(candidate) for candidate in candidates}
        planned, left = 0.0, self.budget_left()
        for seconds in by_encoder.values():
            planned += seconds if planned + seconds <= left and math.isfinite(seconds) else 0.0
        return planned

    def measure(self, candidates: Sequence[Candidate]) -> None:
        """Measure each encoder, unless earlier runs measured all of them together.

        The rounds are interleaved, so that other work on the machine slows all candidates and not one of them.
        """
        metas: dict[str, ModelMeta] = {}
        for name in dict.fromkeys(candidate.encoder for candidate in candidates if candidate.encoder):
            with suppress(*_LEFT_OUT):  # `run` will say so
                metas[name] = mteb.get_model_meta(name)
        known = {name: self.evaluations.find_cost(meta, self.tasks) for name, meta in metas.items()}
        if None not in known.values() and len({cost.measured for cost in known.values() if cost}) < 2:
            self.costs = {name: cost for name, cost in known.items() if cost}
            return
        device = torch.device(self.device or get_device_name()).type
        texts = sample([corpus for parts in self.corpora.values() for corpus in parts], device)
        reads = {candidate.encoder: candidate.target_len for candidate in candidates}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for _ in range(ROUNDS):
            for name in list(metas):
                is_new = name not in self.loaded
                try:
                    model: MTEBModels | None = self.load(name)
                    encoder, cut = _encoder(model), getattr(model, "chunks", None)
                    if name not in self.costs:
                        counted = count(encoder, self.corpora, reads[name], cut)
                        self.costs[name] = replace(counted, measured=now)
                    if encoder is not None and texts:
                        read = chunk_texts(texts, cut) if cut else texts
                        cost, (rate, size) = self.costs[name], speed(encoder, read, is_new=is_new)
                        stored = None if cost.vectors is None else cost.vectors * size
                        self.costs[name] = replace(cost, speeds=[*cost.speeds, rate], bytes=stored)
                except _LEFT_OUT:
                    del metas[name]
                model = encoder = None
                if name not in self.loaded:
                    _free_memory()  # it takes longer than to encode a short text
            if self.budget is not None and self.budget_left() < 0.75 * self.budget:
                break  # what is left of the budget is for scores; such speeds never count as different
        for name, meta in metas.items():
            self.evaluations.keep_cost(meta, self.tasks, self.costs[name])

    def load(self, name: str) -> MTEBModels:
        """mteb's object for a name. Small models stay in memory.

        Large ones are loaded again for every round: with all of them in memory, a comparison would need the memory
        of many models, while loading costs seconds.
        """
        if name in self.loaded:
            return self.loaded[name]
        model = mteb.get_model(name, device=self.device)
        encoders = [_encoder(loaded) for loaded in (model, *self.loaded.values())]
        n_bytes = sum(p.nbytes for encoder in encoders if encoder for p in encoder.parameters())
        if n_bytes <= _KEPT_BYTES:
            self.loaded[name] = model
        return model

    def estimate(self, candidates: Sequence[Candidate]) -> str:
        """A sentence about time, memory and disk at most."""
        data = [(task.dataset[part], task.eval_splits) for task in self.tasks for part in task.hf_subsets]
        n_queries = sum(len(subset[split]["queries"]) for subset, splits in data for split in splits)
        ranked = n_queries * max(task._top_k for task in self.tasks)
        costs = [self.cost(candidate) for candidate in candidates]
        corpora = [corpus for parts in self.corpora.values() for corpus in parts]
        n_documents = sum(map(len, corpora))
        readers = f"{len(costs)} {'candidate reads' if len(costs) == 1 else 'candidates read'}"
        n_tokens = sum(cost.tokens_of(self.corpora) for cost in costs)
        n_windows = sum(map(self.window_tokens, candidates))
        plus = f"{n_windows:,} of windows for passages and the queries" if n_windows else "the queries"
        what = f"{readers} at most {n_tokens:,} tokens of {n_documents:,} documents, plus {plus}"
        seconds = self.planned_seconds(candidates)
        if not seconds:
            return f"{what}."
        vectors = [(cost.bytes or 0) * n_documents for cost in costs]
        # texts are in the task and, while one candidate runs, in its blocks; vectors in the encoder and in the search
        memory = 2 * sum(corpus.data.nbytes for corpus in corpora) + 2 * max(vectors)
        disk = sum(vectors) + len(candidates) * ranked * _RANKED_BYTES
        return (
            f"{what}: about {seconds / _SECONDS_PER_MINUTE:.1f} minutes here (shared work is done only once), "
            f"{memory / 2**20:,.1f} MB of memory beside the model and {disk / 2**20:,.1f} MB on disk."
        )

    def run(self, candidate: Candidate) -> None:
        """Run all evaluations of one candidate. After one of our errors, only this candidate is left out."""
        began, model, name = time.monotonic(), None, candidate.name
        try:
            meta = mteb.get_model_meta(name)
            results = {key: self.evaluations.find(meta, *part) for key, part in self.splits().items()}
            missing = [key for key, scores in results.items() if scores is None]
            if missing and not self._fits(candidate, missing):
                return
            for key in missing:
                task, split = self.splits()[key]
                if self.evaluations.exists(meta, task, split):
                    self.say(f"The ranking of {name} on {', '.join(key)} is not complete, so it runs again.")
                model = self.load(name) if model is None else model  # not for finished evaluations alone
                results[key] = self.evaluations.run(model, meta, task, split)
            self.encoded.add(candidate.encoder)
            self._show_passages(candidate, meta)
            self.scores[candidate] = {key: scores for key, scores in results.items() if scores is not None}
        except (*_LEFT_OUT, ValueError) as error:
            if not (isinstance(error, _LEFT_OUT) or candidate.matches_words):
                raise
            reason = str(error).partition("\n")[0]
            if name == BM25 and isinstance(error, ImportError):
                reason = "it needs pip install mteb-longembed[bm25]."
            elif not isinstance(error, _LEFT_OUT):
                reason = "it finds no word in the documents."  # bm25s has no error of its own
            self.left_out.append(f"{name} is left out: {reason}")
            self.say(self.left_out[-1])
        finally:
            if (store := getattr(_encoder(model), "store", None)) is not None:
                self.tokens_encoded += store.counts.tokens_encoded
                self.tokens_shared += store.counts.tokens_read
            self.seconds[name] = time.monotonic() - began
            self.loaded.pop(name, None)
            model = store = None
            _free_memory()

    def _show_passages(self, candidate: Candidate, meta: ModelMeta) -> None:
        """Score the passages that a candidate shows, where a task knows those that answer."""
        answers, windows = [], self.passages_of_windows
        for key, judged in self.judged.items():
            task, split = self.splits()[key]
            shown = self.evaluations.find_passages(meta, task, split, judged, windows)
            if shown is None:
                # loaded anew, so that its store counts nothing but windows
                model = mteb.get_model(candidate.name, device=self.device)
                shown = show_passages(Searcher(model, passages=windows), task, split, judged)
                if (store := getattr(_encoder(model), "store", None)) is not None:
                    self.tokens_windows += store.counts.tokens_encoded
                self.evaluations.keep_passages(meta, task, split, shown, windows)
            answers.append(first_answers(shown, judged))
        if answers:
            self.passages[candidate.name] = score_passages(answers)

    def _fits(self, candidate: Candidate, splits: Sequence[Key]) -> bool:
        """Whether the budget allows the evaluations that have not run; if not, the candidate is named."""
        seconds, left = self.expected_seconds(candidate, splits), self.budget_left()
        if seconds == 0 or seconds <= left or (math.isinf(seconds) and left > 0):
            return True
        minutes = seconds / _SECONDS_PER_MINUTE
        needed = f"about {minutes:.1f} minutes" if math.isfinite(minutes) else "unknown time"
        self.skipped.append(f"{candidate.name}: {needed}.")
        return False

    def best_dense(self) -> Candidate | None:
        """The candidate with the highest mean so far, without BM25; of equal ones the first by name.

        None if BM25 itself could not run.
        """
        if not any(candidate.name == BM25 for candidate in self.scores):
            return None
        scores = self.complete()
        # by name, because speeds decide who has run first
        dense = sorted((c for c in scores if c.name != BM25), key=lambda c: c.name)
        return max(dense, key=lambda c: fmean(fmean(by.values()) for by in scores[c].values()), default=None)

    def complete(self) -> dict[Candidate, dict[Key, dict[str, float]]]:
        """The ranking metric of the candidates that have run. All have answered the same queries."""
        return {
            candidate: {key: next(iter(by_metric.values())) for key, by_metric in scores.items()}
            for candidate, scores in self.scores.items()
        }

    def result(
        self, names: Sequence[str], counted: list[str], asked: Sequence[Candidate], *, proxy: bool
    ) -> Comparison:
        """The candidates, ranked on the queries that all of them answered; `names` are the tasks' for `mteb run`."""
        scores, evaluations, tasks = self.complete(), self.evaluations, self.tasks
        if not scores:
            why = (self.left_out + self.skipped)[:1]
            raise InputError(
                "compare must finish at least one candidate, got none: give a larger --budget or fewer tasks"
                f"{f' ({why[0]})' if why else ''}."
            )
        costs = {candidate: self.cost(candidate) for candidate in scores}
        rows = rank(scores, costs, others=self.scores, proxy=proxy)
        # `mteb run` does not know the names of tasks from local files
        corpus = next((str(task.corpus_file) for task in tasks if isinstance(task, LocalFiles)), None)
        n_queries = sum(map(len, next(iter(scores.values())).values()))
        allowed = recommendable([row.candidate for row in rows], proxy=proxy)
        expect = expected({candidate: scores[candidate] for candidate in allowed})
        metrics = list(dict.fromkeys(str(metric) for task in tasks for metric in evaluations.metrics(task)))
        data = [evaluations.identity(task, split) for task, split in self.splits().values()]
        shown = self.judged if self.passages_of_windows else {}
        untried = f"{len(self.skipped)} of {len(asked)} candidates" if self.skipped else ""
        advice = recommend(rows, names, n_queries, expect, proxy=proxy, corpus=corpus, untried=untried)
        return Comparison(
            rows,
            advice,
            [task.metadata.name for task in tasks],
            n_queries,
            sum(len(corpus) for parts in self.corpora.values() for corpus in parts),
            self.skipped,
            self.left_out,
            self.seconds,
            proxy,
            self.tokens_encoded,
            self.tokens_shared,
            self.tokens_windows,
            metrics,
            counted,
            hashlib.sha256(" ".join([*data, *metrics, *(c.name for c in asked)]).encode()).hexdigest(),
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            differences(evaluations, tasks, rows, scores, advice.best, shown),
            sensitivities(evaluations, tasks, rows),
            self.passages,
        )


def _free_memory() -> None:
    gc.collect()
    torch.cuda.empty_cache()  # nothing without CUDA


def _encoder(model: MTEBModels | None) -> LongModel | None:
    """Our encoder inside an mteb model, None if there is none."""
    inner = getattr(model, "embedder", None) or getattr(model, "model", None)
    return inner if isinstance(inner, LongModel) else None


def corpora_of(tasks: Sequence[AbsTaskRetrieval]) -> dict[Key, Sequence[Dataset]]:
    """The documents of each split, one table for each subset; a `DataError` if a split has none."""
    corpora: dict[Key, Sequence[Dataset]] = {}
    for task, split in [(one, split) for one in tasks for split in one.eval_splits]:
        parts = [task.dataset[subset][split]["corpus"] for subset in task.hf_subsets]
        if not any(map(len, parts)):
            raise DataError(f"{task.metadata.name}, {split}: a corpus needs at least one document, got none.")
        corpora[task.metadata.name, split] = parts
    return corpora
