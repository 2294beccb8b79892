"""Run candidates: from their names to scores and costs. One model at a time is loaded; its vectors stay."""

import gc
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

import mteb
import pandas as pd
import torch
from sentence_transformers.util import get_device_name
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.encoders.checkpoint import open_checkpoint
from mteb_longembed.encoders.devices import tokens_at_once
from mteb_longembed.encoders.model import LongModel
from mteb_longembed.errors import LongEmbedError
from mteb_longembed.evaluation.evaluate import DEPTH, evaluate, ranked_rows
from mteb_longembed.evaluation.split import Split
from mteb_longembed.hub import offline_without_hub
from mteb_longembed.retrieval.codecs import bytes_of
from mteb_longembed.retrieval.encoder import model_in
from mteb_longembed.retrieval.encoding import Pass
from mteb_longembed.retrieval.experiments import load_resolved
from mteb_longembed.retrieval.hybrid import Hybrid
from mteb_longembed.retrieval.lexical import make_bm25
from mteb_longembed.retrieval.make import encoder_in, scorer_of, searching
from mteb_longembed.retrieval.representation import Representation, repooled
from mteb_longembed.retrieval.scorer import Scorer, whole_documents
from mteb_longembed.retrieval.settings import SearchSettings
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from mteb_longembed.sentences import CHARS_PER_TOKEN, Span

from .cache import Cache
from .candidates import Candidate
from .costs import (
    Cost,
    count,
    estimate,
    measure,
    sampled_texts,
    share_read_by_bm25,
    term_tokens,
)
from .ranked import KeptRankings

#: Rounds of a speed measurement.
_ROUNDS = 3
#: Characters of the documents whose mean size is that of all.
_SAMPLED = 1_000_000


@dataclass(frozen=True)
class Done:
    """A finished candidate.

    Args:
        candidate: the candidate.
        scores: one row for each query, see `evaluate`.
        cost: its cost.
    """

    candidate: Candidate
    scores: pd.DataFrame
    cost: Cost


@dataclass
class Runner:
    """Runs the candidates of a comparison, which share data, device, models and vectors.

    Args:
        cache: cache of finished results.
        splits: the data.
        candidates: all candidates; candidates that share a pass are pooled together.
        device: device of the models, None for the best device of this machine.
        asked: the queries whose rankings are kept and repeated, judged or not; None to keep no rankings.
    """

    cache: Cache
    splits: Sequence[Split]
    candidates: Sequence[Candidate]
    device: str | None
    asked: Split | None = None
    #: The one model that is loaded, mteb's object, by the name of its pass.
    _loaded: dict[str, Any] = field(default_factory=dict)
    #: The vectors of a pass on a split stay until the end.
    _passes: dict[tuple[str, tuple[str, str]], Pass] = field(default_factory=dict)
    #: The speed of a pass, its spread over the rounds, and the bytes of a vector.
    _speeds: dict[str, tuple[float, float, int]] = field(default_factory=dict)

    def run(self, candidate: Candidate) -> Done:
        """Run all evaluations of a candidate that earlier runs have not finished."""
        cost = self._cost(candidate)
        tables = []
        for split in self.splits:
            rankings = self.rankings(candidate)
            if not split.is_judged:
                continue
            table = self.cache.find(candidate.meta, split)
            if table is None:
                scorer: Scorer
                if rankings is not None and self.is_deep_enough(split):
                    scorer = KeptRankings(candidate.meta, rankings)
                else:
                    scorer = self._scorer(candidate, split)
                table = evaluate(scorer, split, candidate.tolerance)
                self.cache.keep(candidate.meta, split, table)
            tables.append(table.assign(clusters=table["query"].map(split.clusters)))
        if not tables:
            return Done(candidate, pd.DataFrame(), cost)
        scores = pd.concat(tables, ignore_index=True)
        scores.insert(0, "candidate", candidate.id)
        return Done(candidate, scores, cost)

    def rankings(self, candidate: Candidate) -> pd.DataFrame | None:
        """Return the rankings of a candidate with its passages, kept or made now; None if none are wanted."""
        if self.asked is None:
            return None
        kept = self.cache.find_rankings(candidate.meta, self.asked)
        if kept is not None:
            return kept
        scorer = self._scorer(candidate, self.asked)
        documents = self.asked.documents
        scorer.fit(documents)
        texts = list(dict.fromkeys(self.asked.judged_queries.values()))
        rows = ranked_rows(scorer, documents, texts, candidate.tolerance)
        first = [[documents.indices[key] for key in ids] for ids in rows["first"]]
        passages = self.passages(candidate, self.asked, texts, first)
        passages = passages or whole_documents(documents, first)
        rows["starts"] = [[start for start, _ in of_query] for of_query in passages]
        rows["ends"] = [[end for _, end in of_query] for of_query in passages]
        self.cache.keep_rankings(candidate.meta, self.asked, rows)
        return rows

    def is_deep_enough(self, split: Split) -> bool:
        """Return whether the metrics of a split can be computed from kept rankings."""
        return max(metric.rank for metric in split.metrics) + split.task.ignore_identical_ids <= DEPTH

    # ---- scorers -----------------------------------------------------------------------------------------

    def _scorer(self, candidate: Candidate, split: Split) -> Scorer:
        """Return the scorer of a candidate on a split. Building it registers its pooling with the pass."""
        if candidate.scorer is not None:
            return candidate.scorer
        if candidate.bm25 is not None:
            return make_bm25(candidate.bm25, self.device)
        if candidate.model is not None:
            return searching(self._pass(candidate, split), candidate.model.vectors, candidate.search)
        if not hasattr(self._model(candidate), "encode"):
            return scorer_of(self._model(candidate))
        return searching(self._pass(candidate, split), None, SearchSettings())

    def _pass(self, candidate: Candidate, split: Split) -> Pass:
        """Return the pass of a candidate on a split, which encodes for all unfinished candidates."""
        key = candidate.passes, split.label
        if key not in self._passes:
            self._passes[key] = Pass(lambda: self._model(candidate))
            for other in self.candidates:
                if other.passes == candidate.passes and not self._is_finished(other, split):
                    # its error is reported when it runs
                    with suppress(LongEmbedError):
                        self._scorer(other, split)
        return self._passes[key]

    def _model(self, candidate: Candidate) -> Any:
        """Return mteb's encoder of a candidate's pass. The encoder of another pass is freed first."""
        name = candidate.passes
        if name not in self._loaded:
            self.free()
            if candidate.model is None:
                with offline_without_hub():
                    loaded: Any = mteb.get_model(name, device=self.device)
            else:
                loaded = load_resolved(
                    open_checkpoint(replace(candidate.model, vectors=None)), device=self.device
                )
            self._loaded[name] = encoder_in(loaded)
        return self._loaded[name]

    def free(self) -> None:
        """Free the model that is loaded. Its vectors stay."""
        if self._loaded:
            for one in self._passes.values():
                one.release()
            self._loaded.clear()
            gc.collect()
            torch.cuda.empty_cache()  # nothing without CUDA

    def is_finished(self, candidate: Candidate) -> bool:
        """Return whether earlier runs have saved all scores of a candidate, or the rankings to make them from."""
        return all(self._is_finished(candidate, split) for split in self.splits)

    def _is_finished(self, candidate: Candidate, split: Split) -> bool:
        if self.asked is None:
            return self.cache.find(candidate.meta, split) is not None
        is_enough = not split.is_judged or self.is_deep_enough(split)
        return is_enough and self.cache.find_rankings(candidate.meta, self.asked) is not None

    def speed(self, candidate: Candidate) -> float | None:
        """Return the document tokens that a candidate's model encodes per second; None if not known."""
        try:
            return self._cost(candidate).tokens_per_second
        except (LongEmbedError, OSError):
            return None  # its error is reported when it runs

    def passages(
        self, candidate: Candidate, split: Split, queries: Sequence[str], indices: Sequence[Sequence[int]]
    ) -> list[list[Span]] | None:
        """Return for each query the span that a candidate shows of each of its documents, without encoding anything.

        With one vector per document it is the whole text. None if the candidate's vectors are not in memory.
        """
        if candidate.bm25 is not None:
            lexical = make_bm25(replace(candidate.bm25, expand=None, of_base=None))
            lexical.fit(split.documents)
            return lexical.passages(queries, indices)
        if candidate.model is None or (candidate.passes, split.label) not in self._passes:
            return None
        scorer = self._scorer(candidate, split)
        if isinstance(scorer, Hybrid):
            scorer = scorer.shown
        if not isinstance(scorer, VectorScorer) or scorer.encoded.is_late or not scorer.has_several_vectors:
            texts = split.documents.texts
            return [[(0, len(texts[index])) for index in of_query] for of_query in indices]
        if len(scorer.representation.vectors) < len(split.documents):
            return None
        return scorer.passages(queries, indices)

    # ---- costs -------------------------------------------------------------------------------------------

    @cached_property
    def term_tokens(self) -> int:
        """Estimated tokens of encoding each term of the documents, for query expansion."""
        return term_tokens(self.splits)

    @cached_property
    def text_bytes(self) -> float | None:
        """Mean bytes of a document's text, of a sample."""
        texts = sampled_texts(self.splits, _SAMPLED)
        return sum(len(text.encode()) for text in texts) / len(texts) if texts else None

    @property
    def _device(self) -> str:
        return self.device or str(get_device_name())

    def _cost(self, candidate: Candidate) -> Cost:
        """Return the cost measured by an earlier run, or measure it. BM25 encodes no document."""
        if candidate.scorer is not None:
            # the cost of a custom scorer, and what it reads, is not known
            return Cost(share_read=math.nan)
        n_term_tokens = 0
        if candidate.expands_queries:
            n_term_tokens = self.term_tokens
        if candidate.bm25 is not None:
            return Cost(n_term_tokens, share_read=share_read_by_bm25(self.splits, candidate.bm25.target_len))
        # search settings change neither vectors nor the speed of encoding
        meta = replace(candidate, name=candidate.encoder, search=SearchSettings()).meta
        cost = self.cache.cost(meta, self.splits, self._device, lambda: self._measured(candidate))
        cost = replace(cost, tokens=cost.tokens + n_term_tokens)
        # BM25 is added to weighted vectors and to the unchanged model's vectors
        if candidate.search.fusion and candidate.search.weights and cost.vectors and cost.bytes:
            cost = replace(cost, vectors=2 * cost.vectors, bytes=2 * cost.bytes)
        if candidate.search.query == "tokens" and cost.vectors and cost.bytes:
            # the vectors of late interaction are kept in int8
            width = round(cost.bytes / cost.vectors / 4)
            cost = replace(cost, bytes=cost.vectors * bytes_of("int8", width))
        return replace(cost, text_bytes=self.text_bytes)

    def _measured(self, candidate: Candidate) -> Cost:
        """Count the cost of a model on the documents."""
        plain = model_in(self._model(candidate))
        if not isinstance(plain, LongModel):
            return estimate(self.splits, candidate.target_len)
        pooled = Representation(None, None if candidate.model is None else candidate.model.vectors)
        cost = count(repooled(plain, pooled), self.splits, candidate.target_len)
        if candidate.passes not in self._speeds:
            # a few batches of the device
            n_tokens = 3 * tokens_at_once(torch.device(self._device))
            texts = sampled_texts(self.splits, CHARS_PER_TOKEN * n_tokens)
            if not texts:
                return cost
            with shared_bar(tqdm(disable=True)):  # these tokens do not count towards the run's
                rounds = [measure(plain, texts) for _ in range(_ROUNDS)]
            speeds = [speed for speed, _ in rounds]
            spread = (max(speeds) - min(speeds)) / max(speeds)
            self._speeds[candidate.passes] = median(speeds), spread, rounds[0][1]
        speed, spread, n_bytes = self._speeds[candidate.passes]
        stored = None
        if cost.vectors is not None:
            stored = cost.vectors * n_bytes
        machine = f"{self._device}, {torch.get_num_threads()} threads"
        return replace(cost, tokens_per_second=speed, speed_spread=spread, device=machine, bytes=stored)
