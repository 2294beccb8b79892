"""The comparison itself: it runs candidates on tasks, cell by cell, within a budget, and keeps finished cells."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mteb
import torch
from ir_measures import Measure
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.types import PromptType

from mteb_longembed.comparing.candidates import BM25, Candidate, fused
from mteb_longembed.comparing.cells import Cells, CellScores
from mteb_longembed.comparing.costs import Cost, Texts, probe, share_read, texts_of, tokens_of
from mteb_longembed.comparing.ranking import Row, rank
from mteb_longembed.comparing.recommendation import Recommendation, recommend
from mteb_longembed.encoders.engine.reading import one_bar
from mteb_longembed.errors import DataError, InputError, LongEmbedError
from mteb_longembed.tasks.scoring import left_out

_SECONDS_PER_MINUTE = 60.0
#: A document's id and score in a ranking on disk, about.
_RANKED_BYTES = 40


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
        metrics: what was scored, the first one ranks; `main score` if each task has its own.
        counted: one sentence for each kind of query or document that is not scored.
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
    metrics: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)


def compare_candidates(
    candidates: Sequence[Candidate],
    tasks: Sequence[AbsTaskRetrieval],
    folder: Path,
    *,
    budget: float | None = None,
    device: str | None = None,
    fuse: bool = True,
    proxy: bool = False,
    metrics: Sequence[Measure] = (),
    counted: Sequence[str] = (),
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
        metrics: what is scored, the first one ranks; by default each task's main score.
        counted: sentences about the data that the caller knows.
        show: whether a progress bar is shown.
        say: called with every sentence for the user.

    Raises:
        InputError: if there is no candidate, or the budget is too small for every candidate.
        DataError: if a corpus is empty, or no query has a relevant document.
    """
    if not candidates:
        raise InputError("compare needs at least one candidate, got none.")
    cells = Cells(Path(folder), metrics)
    loaded = [(task, split) for task in tasks for split in _loaded(task, cells)]
    corpora = {(task.metadata.name, split): _corpus(task, split) for task, split in loaded}
    sentences = [*counted, *(sentence for task, split in loaded for sentence in left_out(task, split))]
    for sentence in sentences:
        say(sentence)
    work = _Work(cells, tasks, corpora, time.monotonic(), budget, device)
    total = sum(
        tokens_of(texts.chars, c.target_len)
        for c in candidates
        if c.name != BM25
        for texts in corpora.values()
    )
    n_documents = sum(len(texts.chars) for texts in corpora.values())
    n_queries = sum(
        len(task.dataset[subset][split]["queries"]) for task, split in loaded for subset in task.hf_subsets
    )
    ahead = work.estimate(candidates, total, n_queries * max(task._top_k for task in tasks))
    one = len(candidates) == 1
    say(
        f"{len(candidates)} {'candidate reads' if one else 'candidates read'} {total:,} tokens at most in "
        f"{n_documents:,} documents{ahead}"
    )
    with one_bar(total, "Comparing", show=show):
        for candidate in candidates:
            work.run(candidate, say)
        if fuse and (best := work.best_dense()) is not None and (joined := fused(best)) is not None:
            work.run(joined, say)
    scores = work.complete()
    rows = rank(scores, work.costs, others=work.others)
    names = [task.metadata.name for task in tasks]
    # `mteb run` does not know the names of tasks from local files
    corpus = next((str(task.files[0]) for task in tasks if hasattr(task, "files")), None)
    n_queries = sum(map(len, next(iter(scores.values())).values()))
    return Comparison(
        rows,
        recommend(rows, names, n_queries, proxy=proxy, corpus=corpus),
        names,
        n_queries,
        work.skipped,
        work.left_out,
        work.seconds,
        proxy,
        work.tokens_encoded,
        work.tokens_shared,
        list(dict.fromkeys(str(metric) for task in tasks for metric in cells.metrics(task))),
        sentences,
    )


@dataclass
class _Work:
    """The state of one comparison: what is done, and what is left."""

    cells: Cells
    tasks: Sequence[AbsTaskRetrieval]
    corpora: Mapping[tuple[str, str], Texts]
    started: float
    budget: float | None
    device: str | None
    scores: dict[Candidate, dict[tuple[str, str], dict[str, float]]] = field(default_factory=dict)
    others: dict[Candidate, dict[tuple[str, str], CellScores]] = field(default_factory=dict)
    costs: dict[Candidate, Cost] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    tokens_encoded: int = 0
    tokens_shared: int = 0

    #: The model that `estimate` has loaded; `run` uses it again.
    loaded: tuple[Candidate, Any] | None = None

    def estimate(self, candidates: Sequence[Candidate], total: int, ranked: int) -> str:
        """A sentence about time, memory and disk at most; "." if the first candidate cannot load.

        Args:
            candidates: the candidates; the first one is measured.
            total: the tokens that all of them read.
            ranked: the documents in all rankings of one candidate.
        """
        first = next((candidate for candidate in candidates if candidate.name != BM25), None)
        if first is None:
            return "."
        try:
            meta = mteb.get_model_meta(first.name)
            cost = self.cells.find_cost(meta, self.tasks)
            if cost is None:
                model: Any = mteb.get_model(first.name, device=self.device)
                self.loaded = first, model
                cost = self._probe(first, meta, model)
        except (LongEmbedError, ImportError, OSError):  # `run` will say so
            return "."
        if not cost.tokens_per_second:
            return "."
        chars = [n for texts in self.corpora.values() for n in texts.chars]
        one = (cost.bytes or 0) / max(cost.vectors or 1, 1)
        vectors = [one * sum(vectors_of(n, candidate) for n in chars) for candidate in candidates]
        # texts are in the task and, while one candidate runs, in its blocks; vectors in the encoder and in the search
        memory = 2 * sum(chars) + 2 * max(vectors)
        disk = sum(vectors) + len(candidates) * ranked * _RANKED_BYTES
        return (
            f": {first.name} encodes {cost.tokens_per_second:,.0f} tokens a second here, so about "
            f"{total / cost.tokens_per_second / _SECONDS_PER_MINUTE:.1f} minutes at most (shared work is done only "
            f"once), {memory / 2**20:,.1f} MB of memory beside the model and {disk / 2**20:,.1f} MB on disk."
        )

    def run(self, candidate: Candidate, say: Callable[[str], None]) -> None:
        """Run all cells of one candidate. After one of our errors, only this candidate is left out."""
        began = time.monotonic()
        try:
            meta = mteb.get_model_meta(candidate.name)
            model: Any = None
            if not self._take_finished(candidate, meta, say):
                if self.loaded is not None and self.loaded[0] is candidate:
                    model = self.loaded[1]
                else:
                    model = mteb.get_model(candidate.name, device=self.device)
                self._cells(candidate, meta, model)
        except (LongEmbedError, ImportError, OSError) as error:  # OSError: a name too long for mteb's folder
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

    def _take_finished(self, candidate: Candidate, meta: Any, say: Callable[[str], None]) -> bool:
        """Take all cells from an earlier run, if all are there. Then the weights need not load."""
        cost = self.cells.find_cost(meta, self.tasks)
        found = {}
        for task in self.tasks:
            for split in task.eval_splits:
                found[task.metadata.name, split] = self.cells.find(meta, task, split)
                if self.cells.is_damaged(meta, task, split):
                    say(
                        f"The ranking of {candidate.name} on {task.metadata.name}, {split} is not complete, so it "
                        "runs again."
                    )
        if cost is None or None in found.values():
            return False
        self.costs[candidate] = replace(cost, share_read=share_read(self._all().chars, candidate.target_len))
        for key, scores in found.items():
            self._take(candidate, key, scores or {})
        return True

    def _take(self, candidate: Candidate, key: tuple[str, str], scores: CellScores) -> None:
        self.others.setdefault(candidate, {})[key] = scores
        self.scores.setdefault(candidate, {})[key] = next(iter(scores.values()))

    def _all(self) -> Texts:
        """All corpora as one."""
        parts = self.corpora.values()
        return Texts(
            [n for texts in parts for n in texts.chars], [text for texts in parts for text in texts.middle]
        )

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
        if (
            self.loaded is not None
            and self.loaded[0] is candidate
            and (known := self.cells.find_cost(meta, self.tasks))
        ):
            return known
        encoder = _encoder(model)
        store = getattr(encoder, "store", None)
        if encoder is not None:
            encoder.store = None  # a probe must not read embeddings that another candidate has stored
        cost = probe(encoder, self._all(), candidate.target_len)
        if encoder is not None:
            encoder.store = store
        self.cells.keep_cost(meta, self.tasks, cost)
        return cost

    def _run_splits(self, candidate: Candidate, meta: Any, model: Any, cost: Cost) -> None:
        for task in self.tasks:
            for split in task.eval_splits:
                key = (task.metadata.name, split)
                expected = 0.0
                if cost.tokens_per_second and self.cells.find(meta, task, split) is None:
                    expected = (
                        tokens_of(self.corpora[key].chars, candidate.target_len) / cost.tokens_per_second
                    )
                if self.budget is not None and time.monotonic() - self.started + expected > self.budget:
                    self.skipped.append(
                        f"{candidate.name} on {key[0]}, {split}: about {expected / _SECONDS_PER_MINUTE:.1f} minutes."
                    )
                    continue
                self._take(candidate, key, self.cells.run(model, meta, task, split))

    def best_dense(self) -> Candidate | None:
        """The candidate with the highest mean so far, without BM25."""
        complete = {
            c: found for c, found in self.scores.items() if c.name != BM25 and len(found) == len(self.corpora)
        }
        if not any(c.name == BM25 for c in self.scores) or not complete:
            return None

        def mean(candidate: Candidate) -> float:
            by_split = [sum(scores.values()) / len(scores) for scores in complete[candidate].values()]
            return sum(by_split) / len(by_split)

        return max(complete, key=mean)

    def complete(self) -> dict[Candidate, dict[tuple[str, str], dict[str, float]]]:
        """The candidates that have all cells. Only these have answered the same queries."""
        complete = {c: found for c, found in self.scores.items() if len(found) == len(self.corpora)}
        if not complete:
            why = (self.left_out + self.skipped)[:1]
            raise InputError(
                "compare must finish at least one candidate, got none: give a larger --budget or fewer tasks"
                f"{f' ({why[0]})' if why else ''}."
            )
        return complete


def _encoder(model: Any) -> Any:
    """Our encoder inside an mteb model, None if there is none."""
    inner = getattr(model, "embedder", None) or getattr(model, "model", None)
    return inner if hasattr(inner, "encode") and hasattr(inner, "store") else None


def _loaded(task: AbsTaskRetrieval, cells: Cells) -> Sequence[str]:
    if not isinstance(task, AbsTaskRetrieval) or task.metadata.get_modalities(PromptType.document) != [
        "text"
    ]:
        raise InputError(
            f"compare takes text retrieval tasks, got {task.metadata.name} ({task.metadata.type})."
        )
    if not task.data_loaded:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(None)
    cells.prepare(task)
    return task.eval_splits


def _corpus(task: AbsTaskRetrieval, split: str) -> Texts:
    parts = [texts_of(task.dataset[subset][split]["corpus"]) for subset in task.hf_subsets]
    chars = [n for part in parts for n in part.chars]
    if not chars:
        raise DataError(f"{task.metadata.name}, {split}: a corpus needs at least one document, got none.")
    return Texts(chars, [text for part in parts for text in part.middle])


def vectors_of(n_chars: int, candidate: Candidate) -> int:
    """About how many vectors a document with so many characters has, at most."""
    if (found := re.search("vectors=(window|[0-9]+)", candidate.name)) is None:
        return 1
    size = re.search("size=([0-9]+)", candidate.name)
    tokens = int(found[1]) if found[1].isdigit() else int(size[1]) if size else candidate.trained_len or 1
    return 1 + tokens_of([n_chars], candidate.target_len) // tokens
