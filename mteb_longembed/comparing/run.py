"""Candidates from their names to their scores and costs. One model at a time is loaded, and freed at the end."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, cast

import pandas as pd
import torch
from mteb.models import ModelMeta, MTEBModels
from sentence_transformers.util import get_device_name

from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.engine.progress import no_bar
from mteb_longembed.encoders.model import LongModelMixin, LongSentenceTransformer
from mteb_longembed.errors import LongEmbedError
from mteb_longembed.evaluation.passages import ShownPassages, score_passages
from mteb_longembed.evaluation.split import Split
from mteb_longembed.retrieval.encoder import LongEncoder, LongMultiVectorSearch
from mteb_longembed.retrieval.fusion import FusedSearch
from mteb_longembed.retrieval.heads import by_window, fitted, pooled_too
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.vector_search import VectorSearch

from .cache import Cache
from .candidates import Candidate
from .costs import Cost, LongModel, chunk_texts, count, count_tokens, duration, measure, sample

#: So many documents of each query are looked at for passages.
DEPTH = 100


class CandidateError(LongEmbedError):
    """A candidate cannot run; the others can."""


class OverBudgetError(Exception):
    """A candidate needs more time than the budget has left."""


@dataclass(frozen=True)
class Done:
    """A candidate that has run.

    Args:
        candidate: the candidate.
        scores: one row for each query, see `Split.score`; with judged passages also the columns of `score_passages`.
        costs: the fields of `Cost`, and the seconds of this run.
    """

    candidate: Candidate
    scores: pd.DataFrame
    costs: dict[str, Any]


@dataclass
class Runner:
    """What all candidates of a comparison run on.

    Args:
        cache: where finished work is kept.
        splits: the data.
        candidates: all of them: those of one pass are pooled together.
        device: where models run, None for the best device of this machine.
        until: when the budget ends, by `time.monotonic`.
        before_first_pass: called once with the first measured cost of a model.
    """

    cache: Cache
    splits: Sequence[Split]
    candidates: Sequence[Candidate]
    device: str | None
    until: float = math.inf
    before_first_pass: Callable[[Cost], None] = field(default=lambda cost: None)
    _has_begun: bool = False
    #: Passes that have run, and whether they gave several vectors a document.
    _encoded: set[tuple[str, bool]] = field(default_factory=set)

    def run(self, candidate: Candidate) -> Done:
        """Run all evaluations of a candidate that earlier runs have not finished.

        Raises:
            OverBudgetError: if it would take longer than the budget allows.
            CandidateError: if it cannot run.
        """
        try:
            with _OneModel(candidate, self.device) as loaded:
                done = self._run(candidate, loaded)
        except (LongEmbedError, ImportError, OSError) as error:  # OSError: a name too long for mteb's folder
            raise CandidateError(str(error).partition("\n")[0]) from error
        self._encoded.add((candidate.passes, candidate.is_multi_vector))
        return done

    def _is_encoded(self, candidate: Candidate) -> bool:
        """Whether a pass that has run gave a candidate's vectors. One with several vectors gives no single one."""
        kinds = {False, candidate.is_multi_vector}
        return any((candidate.passes, kind) in self._encoded for kind in kinds)

    def _run(self, candidate: Candidate, loaded: _OneModel) -> Done:
        began = time.monotonic()
        meta = candidate.meta
        tables = {split.key: self.cache.find(meta, split) for split in self.splits}
        missing = [split for split in self.splits if tables[split.key] is None]
        cost = self._cost(candidate, loaded)
        if missing and cost.tokens_per_second and not self._has_begun:
            self._has_begun = True
            self.before_first_pass(cost)
        if missing and not self._is_encoded(candidate):
            self._check_budget(candidate, cost, missing)
        for split in missing:
            # what an earlier candidate's pass has encoded does not advance the bar again
            bar = no_bar() if self._is_encoded(candidate) else nullcontext()
            with bar, pooled_too(loaded.encoder, self._others_of_the_pass(candidate, loaded, split)):
                tables[split.key] = self.cache.run(loaded.model, meta, split)
        parts = []
        for split in self.splits:
            part = tables[split.key]
            if split.passages:
                part = self._with_passages(cast("pd.DataFrame", part), split, meta, loaded)
            parts.append(part)
        scores = pd.concat(parts, ignore_index=True)
        scores.insert(0, "candidate", candidate.id)
        return Done(candidate, scores, {**asdict(cost), "seconds": time.monotonic() - began})

    def _check_budget(self, candidate: Candidate, cost: Cost, missing: Sequence[Split]) -> None:
        left = self.until - time.monotonic()
        seconds = self.expected_seconds(cost, missing)
        if math.isinf(seconds) and left <= 0:
            raise OverBudgetError(f"{candidate.id}: unknown time.")
        # where the time is not known, a candidate may run while there is any
        if math.isfinite(seconds) and seconds > max(left, 0):
            raise OverBudgetError(f"{candidate.id}: about {duration(seconds)}.")

    def expected_seconds(self, cost: Cost, splits: Sequence[Split]) -> float:
        """The time to encode the documents of some splits, 0 for BM25; infinite if it is not known."""
        n_documents = sum(len(split.corpus) for split in self.splits)
        n_tokens = 0.0
        for split in splits:
            of_split = cost.tokens * len(split.corpus) / n_documents
            n_tokens += of_split
            if cost.vectors == 1:
                # the windows of the documents that judged queries show
                n_tokens += of_split * min(1, DEPTH * len(split.passages) / len(split.corpus))
        if not n_tokens:
            return 0.0
        if not cost.tokens_per_second:
            return math.inf
        return n_tokens / cost.tokens_per_second

    def _cost(self, candidate: Candidate, loaded: _OneModel) -> Cost:
        """The cost that an earlier run has measured, or that is measured now; nothing for BM25."""
        if candidate.kind == "words":
            return Cost()
        # settings of search change no vector, and no speed of encoding
        meta = candidate.meta
        if not candidate.key:
            meta = replace(candidate, name=candidate.encoder).meta
        device = self.device or str(get_device_name())
        return self.cache.cost(meta, self.splits, device, lambda: self._measured(candidate, loaded, device))

    def _measured(self, candidate: Candidate, loaded: _OneModel, device: str) -> Cost:
        """The cost of a model with the documents, or with their chunks."""
        chunks = getattr(loaded.vectors, "chunks", None)
        cost = count(loaded.encoder, self.splits, candidate.target_len, chunks)
        if loaded.encoder is None:
            return cost
        texts = sample(self.splits, torch.device(device).type)
        if chunks is not None:
            texts = chunk_texts(texts, chunks)
        if not texts:
            return cost
        with no_bar():
            speeds, n_bytes = measure(loaded.encoder, texts)
        low, median, high = sorted(speeds)
        machine = f"{device}, {torch.get_num_threads()} threads"
        cost = replace(cost, slowest=low, tokens_per_second=median, fastest=high, device=machine)
        if cost.vectors is not None:
            cost = replace(cost, bytes=cost.vectors * n_bytes)
        return cost

    def _others_of_the_pass(
        self, candidate: Candidate, loaded: _OneModel, split: Split
    ) -> list[LongModelMixin]:
        """Models of other candidates that only pool this one's pass in another way: their vectors are kept too."""
        others = [other.parts for other in self.candidates if other.passes == candidate.passes]
        search = loaded.vectors
        if len(others) < 2 or search is None or self._is_encoded(candidate):
            return []
        counts = cache(partial(search.counts_of, split.corpus, **split.options))
        made: dict[object, LongModelMixin] = {}
        for parts in others:
            if parts is None:
                continue
            spec, settings = parts
            adapted: Any = fitted(search.embedder, counts, settings.weights, settings.whiten)
            forms = {spec.vectors}
            if settings.whiten and spec.strategy == "pcw":
                forms.add("window")  # a map of one vector is fitted on the vectors of windows
            for vectors in forms:
                # a pass with several vectors gives no single one, and no others
                if isinstance(adapted, LongSentenceTransformer) and vectors is not None:
                    made[settings.weights, settings.whiten, vectors] = by_window(
                        adapted, cast("Any", vectors)
                    )
                elif vectors == cast("tuple[ModelSpec, object]", candidate.parts)[0].vectors:
                    made[settings.weights, settings.whiten, vectors] = adapted
        return [model for model in made.values() if model is not search.embedder]

    def _with_passages(
        self, table: pd.DataFrame, split: Split, meta: ModelMeta, loaded: _OneModel
    ) -> pd.DataFrame:
        """The scores with columns about the passages that a candidate shows."""
        # the vectors of documents come from the store, in which the evaluation has put them
        with no_bar():
            shown = self.cache.passages(meta, split, lambda: show_passages(Searcher(loaded.model), split))
        scores = pd.DataFrame.from_dict(score_passages(shown, split.passages), orient="index")
        return table.join(scores, on="query")


def show_passages(searcher: Searcher, split: Split) -> ShownPassages:
    """The best passage of each of the first documents, for each query with a judged passage.

    Args:
        searcher: an empty one; the documents are added here.
        split: one whose passages are judged.
    """
    texts = dict(zip(split.corpus["id"], split.texts(), strict=True))
    searcher.add(list(texts), list(texts.values()))
    shown = {}
    for query in split.passages:
        if query in split.queries:
            passages = []
            for hit in searcher.search(split.queries[query], DEPTH):
                # by words, so that it is the same for each candidate, whatever its tokenizer
                n_tokens = count_tokens(texts[hit.id][hit.start : hit.end])
                passages.append((hit.id, hit.start, hit.end, n_tokens))
            shown[query] = passages
    return shown


@dataclass
class _OneModel:
    """The model of a candidate: loaded at its first use, and freed at the end of the `with` block."""

    candidate: Candidate
    device: str | None

    @cached_property
    def model(self) -> MTEBModels:
        """mteb's object."""
        return self.candidate.load(self.device)

    @property
    def vectors(self) -> VectorSearch | None:
        """The search over its vectors, None if there is none of ours."""
        search: Any = self.model
        if isinstance(search, FusedSearch):
            search = search.vectors
        if isinstance(search, (LongEncoder, LongMultiVectorSearch)):
            search = VectorSearch(search)
        if isinstance(search, VectorSearch) and isinstance(search.embedder, LongModel):
            return search
        return None

    @property
    def encoder(self) -> LongModel | None:
        """Our encoder inside it, None if there is none."""
        return cast("LongModel | None", getattr(self.vectors, "embedder", None))

    def __enter__(self) -> _OneModel:
        return self

    def __exit__(self, *_: object) -> None:
        if "model" in vars(self):
            del self.model
            gc.collect()
            torch.cuda.empty_cache()  # nothing without CUDA
