"""The comparison itself: it runs candidates on tasks, cell by cell, within a budget, and keeps finished cells."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mteb
import torch
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.candidates import BM25, Candidate, fused
from mteb_longembed.comparing.cells import Cells
from mteb_longembed.comparing.costs import Cost, probe, share_read, tokens_of
from mteb_longembed.comparing.ranking import Row, rank
from mteb_longembed.comparing.recommendation import Recommendation, recommend
from mteb_longembed.encoders.engine.reading import one_bar
from mteb_longembed.errors import DataError, InputError, LongEmbedError

_SECONDS_PER_MINUTE = 60.0


@dataclass
class Comparison:
    """The result of a comparison.

    Args:
        rows: the candidates, the best first.
        recommendation: what to do.
        tasks: names of the tasks.
        n_queries: queries that all candidates answered.
        skipped: one sentence for each cell that did not fit into the budget.
        left_out: one sentence for each candidate that could not run.
        seconds: wall time of each candidate's cells, with the time to read stored embeddings.
        proxy: whether the queries were drawn from the documents.
        tokens_encoded: tokens that were encoded for this comparison, without probes.
        tokens_shared: tokens whose embeddings were known already, from other candidates or earlier runs.
    """

    rows: list[Row]
    recommendation: Recommendation
    tasks: list[str]
    n_queries: int
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    proxy: bool = False
    tokens_encoded: int = 0
    tokens_shared: int = 0


def compare(
    candidates: Sequence[Candidate],
    tasks: Sequence[AbsTaskRetrieval],
    folder: Path,
    *,
    budget: float | None = None,
    device: str | None = None,
    fuse: bool = True,
    proxy: bool = False,
    show: bool = True,
    say: Callable[[str], None] = print,
) -> Comparison:
    """Run every candidate on every task, and rank them on the queries that all of them answered.

    Args:
        candidates: the candidates.
        tasks: mteb retrieval tasks.
        folder: mteb's results folder; finished cells in it do not run again.
        budget: seconds; cells that would take longer are skipped and named. None means no limit.
        device: where models run; default the best device of this machine.
        fuse: whether the best candidate also takes part with BM25's scores added.
        proxy: whether the queries were drawn from the documents.
        show: whether a progress bar is shown.
        say: called with every sentence for the user.

    Raises:
        InputError: if there is no candidate, or the budget is too small for every candidate.
        DataError: if a corpus is empty, or no query has a relevant document.
    """
    if not candidates:
        raise InputError("compare needs at least one candidate, got none.")
    cells = Cells(Path(folder))
    corpora = {(task.metadata.name, split): _corpus(task, split) for task in tasks for split in _loaded(task)}
    work = _Work(cells, tasks, corpora, time.monotonic(), budget, device)
    total = sum(
        tokens_of(texts, c.target_len) for c in candidates if c.name != BM25 for texts in corpora.values()
    )
    n_documents = sum(map(len, corpora.values()))
    ahead = work.estimate(candidates, total)
    say(f"{len(candidates)} candidates read {total:,} tokens at most in {n_documents:,} documents{ahead}")
    with one_bar(total, "Comparing", show=show):
        for candidate in candidates:
            work.run(candidate, say)
        if fuse and (best := work.best_dense()) is not None and (joined := fused(best)) is not None:
            work.run(joined, say)
    scores = work.complete()
    rows = rank(scores, work.costs)
    names = [task.metadata.name for task in tasks]
    # `mteb run` does not know the names of tasks from local files
    named = [task.metadata.name for task in tasks if not hasattr(task, "files")]
    n_queries = sum(map(len, next(iter(scores.values())).values()))
    return Comparison(
        rows,
        recommend(rows, named, n_queries, proxy=proxy),
        names,
        n_queries,
        work.skipped,
        work.left_out,
        work.seconds,
        proxy,
        work.tokens_encoded,
        work.tokens_shared,
    )


@dataclass
class _Work:
    """The state of one comparison: what is done, and what is left."""

    cells: Cells
    tasks: Sequence[AbsTaskRetrieval]
    corpora: Mapping[tuple[str, str], list[str]]
    started: float
    budget: float | None
    device: str | None
    scores: dict[Candidate, dict[tuple[str, str], dict[str, float]]] = field(default_factory=dict)
    costs: dict[Candidate, Cost] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    tokens_encoded: int = 0
    tokens_shared: int = 0

    #: The model that `estimate` has loaded; `run` uses it again.
    loaded: tuple[Candidate, Any] | None = None

    def estimate(self, candidates: Sequence[Candidate], total: int) -> str:
        """A sentence about the time at most, from the speed of the first candidate; "." if it cannot load."""
        first = next((candidate for candidate in candidates if candidate.name != BM25), None)
        if first is None:
            return "."
        try:
            meta = mteb.get_model_meta(first.name)
            cost = self.cells.find_cost(meta)
            if cost is None:
                model: Any = mteb.get_model(first.name, device=self.device)
                self.loaded = first, model
                cost = self._probe(first, meta, model)
        except (LongEmbedError, ImportError):  # `run` will tell the user
            return "."
        if not cost.tokens_per_second:
            return "."
        size = (cost.bytes or 0) * sum(map(len, self.corpora.values())) / 2**20
        return (
            f": {first.name} encodes {cost.tokens_per_second:,.0f} tokens a second here, so about "
            f"{total / cost.tokens_per_second / _SECONDS_PER_MINUTE:.1f} minutes at most (shared work is done only "
            f"once), and {size:,.1f} MB of vectors for each candidate."
        )

    def run(self, candidate: Candidate, say: Callable[[str], None]) -> None:
        """Run all cells of one candidate. After one of our errors, only this candidate is left out."""
        began = time.monotonic()
        try:
            meta = mteb.get_model_meta(candidate.name)
            model: Any = None
            if not self._take_finished(candidate, meta):
                if self.loaded is not None and self.loaded[0] is candidate:
                    model = self.loaded[1]
                else:
                    model = mteb.get_model(candidate.name, device=self.device)
                self._cells(candidate, meta, model)
        except (LongEmbedError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            if candidate.name == BM25 and isinstance(error, ImportError):
                reason = "it needs pip install mteb-longembed[bm25]."
            self.left_out.append(f"{candidate.name} is left out: {reason}")
            self.scores.pop(candidate, None)
            say(self.left_out[-1])
        finally:
            self.seconds[candidate.name] = time.monotonic() - began
            self.loaded = model = None
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _take_finished(self, candidate: Candidate, meta: Any) -> bool:
        """Take all cells from an earlier run, if all are there. Then the weights need not load."""
        cost = self.cells.find_cost(meta)
        found = {
            (task.metadata.name, split): self.cells.find(meta, task, split)
            for task in self.tasks
            for split in task.eval_splits
        }
        whole = {key: scores for key, scores in found.items() if scores is not None}
        if cost is None or len(whole) < len(found):
            return False
        texts = [text for corpus in self.corpora.values() for text in corpus]
        self.costs[candidate] = replace(cost, share_read=share_read(texts, candidate.target_len))
        self.scores[candidate] = whole
        return True

    def _cells(self, candidate: Candidate, meta: Any, model: Any) -> None:
        cost = self.costs[candidate] = self._probe(candidate, meta, model)
        store = getattr(_encoder(model), "store", None)
        if store is not None:
            store.keeps_windows = True
        try:
            self._run_splits(candidate, meta, model, cost)
        finally:
            if store is not None:
                self.tokens_encoded += store.counts.tokens_encoded
                self.tokens_shared += store.counts.tokens_read

    def _probe(self, candidate: Candidate, meta: Any, model: Any) -> Cost:
        """The cost of a candidate: measured now, or known from `estimate`."""
        if self.loaded is not None and self.loaded[0] is candidate and (known := self.cells.find_cost(meta)):
            return known
        encoder = _encoder(model)
        store = getattr(encoder, "store", None)
        if encoder is not None:
            encoder.store = None  # a probe must not read embeddings that another candidate has stored
        texts = [text for corpus in self.corpora.values() for text in corpus]
        cost = probe(encoder, texts, candidate.target_len)
        if encoder is not None:
            encoder.store = store
        self.cells.keep_cost(meta, cost)
        return cost

    def _run_splits(self, candidate: Candidate, meta: Any, model: Any, cost: Cost) -> None:
        for task in self.tasks:
            for split in task.eval_splits:
                key = (task.metadata.name, split)
                expected = 0.0
                if cost.tokens_per_second and self.cells.find(meta, task, split) is None:
                    expected = tokens_of(self.corpora[key], candidate.target_len) / cost.tokens_per_second
                if self.budget is not None and time.monotonic() - self.started + expected > self.budget:
                    self.skipped.append(
                        f"{candidate.name} on {key[0]}, {split}: about {expected / _SECONDS_PER_MINUTE:.1f} minutes."
                    )
                    continue
                found = self.cells.run(model, meta, task, split)
                self.scores.setdefault(candidate, {})[key] = found

    def best_dense(self) -> Candidate | None:
        """The candidate with the highest mean so far, without BM25."""
        whole = {
            c: found for c, found in self.scores.items() if c.name != BM25 and len(found) == len(self.corpora)
        }
        if not any(c.name == BM25 for c in self.scores) or not whole:
            return None

        def mean(candidate: Candidate) -> float:
            by_split = [sum(scores.values()) / len(scores) for scores in whole[candidate].values()]
            return sum(by_split) / len(by_split)

        return max(whole, key=mean)

    def complete(self) -> dict[Candidate, dict[tuple[str, str], dict[str, float]]]:
        """The candidates that have all cells. Only these have answered the same queries."""
        whole = {c: found for c, found in self.scores.items() if len(found) == len(self.corpora)}
        if not whole:
            why = (self.left_out + self.skipped)[:1]
            raise InputError(
                "compare must finish at least one candidate, got none: give a larger --budget or fewer tasks"
                f"{f' ({why[0]})' if why else ''}."
            )
        return whole


def _encoder(model: Any) -> Any:
    """Our encoder inside an mteb model, None if there is none."""
    inner = getattr(model, "embedder", None) or getattr(model, "model", None)
    return inner if hasattr(inner, "encode") and hasattr(inner, "store") else None


def _loaded(task: AbsTaskRetrieval) -> Sequence[str]:
    if not isinstance(task, AbsTaskRetrieval):
        raise InputError(f"compare takes retrieval tasks, got {task.metadata.name} ({task.metadata.type}).")
    if not task.data_loaded:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    return task.eval_splits


def _corpus(task: AbsTaskRetrieval, split: str) -> list[str]:
    texts: list[str] = []
    for subset in task.hf_subsets:
        corpus = task.dataset[subset][split]["corpus"]
        titles = corpus["title"] if "title" in corpus.column_names else [""] * len(corpus)
        texts += [f"{title or ''} {text}".strip() for title, text in zip(titles, corpus["text"], strict=True)]
    if not texts:
        raise DataError(f"{task.metadata.name}, {split}: a corpus needs at least one document, got none.")
    return texts
