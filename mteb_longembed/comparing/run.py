"""Run candidates: from their names to scores and costs. One model at a time is loaded; its vectors stay."""

import gc
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import pandas as pd
import torch
from sentence_transformers.util import get_device_name
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.encoders.devices import tokens_at_once
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.model import LongModel
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.resolved import Resolved, resolve
from mteb_longembed.encoders.tokens import estimated_tokens
from mteb_longembed.errors import LongEmbedError
from mteb_longembed.evaluation.evaluate import DEPTH, evaluate, ranked_rows
from mteb_longembed.evaluation.split import Split
from mteb_longembed.retrieval.codecs import bytes_of
from mteb_longembed.retrieval.encoder import Encoder, load_for_search
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.make import make_bm25, search_over
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scorer import Scorer, whole_documents
from mteb_longembed.sentences import CHARS_PER_TOKEN, Span

from .cache import Cache
from .candidates import Candidate
from .costs import (
    TOKENS_PER_TERM,
    Cost,
    count,
    estimate,
    measure,
    sampled_texts,
    share_read_by_bm25,
    terms_of,
)
from .ranked import SavedRankings

#: Rounds of a speed measurement.
_ROUNDS = 3
#: Characters of the documents whose mean size is measured.
_SAMPLED = 1_000_000


@dataclass(frozen=True)
class Result:
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
    #: The one model that is loaded, by the name of its pass: ours, or a scorer of mteb's own.
    _loaded: dict[str, LongModel] = field(default_factory=dict)
    _of_mteb: dict[str, Scorer] = field(default_factory=dict)
    #: The vectors of a pass on a split stay until the end.
    _encodings: dict[tuple[str, tuple[str, str]], Encoding] = field(default_factory=dict)
    #: The speed of a pass, its spread over the rounds, and the bytes of a vector.
    _speeds: dict[str, tuple[float, float, int]] = field(default_factory=dict)

    def run(self, candidate: Candidate) -> Result:
        """Run all evaluations of a candidate that earlier runs have not finished."""
        cost = self._cost(candidate)
        tables = []
        for split in self.splits:
            rankings = self.rankings(candidate)
            if not split.is_judged:
                continue
            table = self.cache.find(candidate.identity, split)
            if table is None:
                scorer: Scorer
                if rankings is not None and self.is_deep_enough(split):
                    scorer = SavedRankings(candidate.identity, rankings)
                else:
                    scorer = self._scorer(candidate, split)
                table = evaluate(scorer, split, candidate.tolerance)
                self.cache.save(candidate.identity, split, table)
            tables.append(table.assign(clusters=table["query"].map(split.clusters)))
        if not tables:
            return Result(candidate, pd.DataFrame(), cost)
        scores = pd.concat(tables, ignore_index=True)
        scores.insert(0, "candidate", candidate.id)
        return Result(candidate, scores, cost)

    def rankings(self, candidate: Candidate) -> pd.DataFrame | None:
        """Return the rankings of a candidate with its passages, kept or made now; None if none are wanted."""
        if self.asked is None:
            return None
        kept = self.cache.find_rankings(candidate.identity, self.asked)
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
        self.cache.save_rankings(candidate.identity, self.asked, rows)
        return rows

    def is_deep_enough(self, split: Split) -> bool:
        """Return whether the metrics of a split can be computed from saved rankings."""
        return max(metric.rank for metric in split.metrics) + split.task.ignore_identical_ids <= DEPTH

    # ---- scorers -----------------------------------------------------------------------------------------

    def _scorer(self, candidate: Candidate, split: Split) -> Scorer:
        """Return the scorer of a candidate on a split. Building it registers its pooling with the encoding."""
        if candidate.scorer is not None:
            return candidate.scorer
        if candidate.resolved is not None:
            return search_over(self._encoding(candidate, candidate.resolved, split), candidate.resolved)
        if candidate.method is not None:
            return make_bm25(candidate.method, self.device)
        if candidate.name not in self._of_mteb:
            from mteb_longembed.retrieval.mteb_models import load_from_mteb

            self.free()
            self._of_mteb[candidate.name] = load_from_mteb(candidate.name, self.device)
        return self._of_mteb[candidate.name]

    def _encoding(self, candidate: Candidate, resolved: Resolved, split: Split) -> Encoding:
        """Return the encoding of a split by a candidate's model, for all unfinished candidates."""
        key = candidate.passes, split.label
        if key not in self._encodings:
            self._encodings[key] = Encoding(Encoder(lambda: self._model(candidate.passes, resolved)))
            for other in self.candidates:
                if other.passes == candidate.passes and not self._is_finished(other, split):
                    # its error is reported when it runs
                    with suppress(LongEmbedError):
                        self._scorer(other, split)
        return self._encodings[key]

    def _model(self, name: str, resolved: Resolved) -> LongModel:
        """Return the model of a pass. The model of another pass is freed first."""
        if name not in self._loaded:
            self.free()
            self._loaded[name] = load_for_search(resolved, self.device)
        return self._loaded[name]

    def free(self) -> None:
        """Free the model that is loaded. Its vectors stay."""
        if self._loaded or self._of_mteb:
            for one in self._encodings.values():
                one.encoder.release()
            self._loaded.clear()
            self._of_mteb.clear()
            gc.collect()
            torch.cuda.empty_cache()  # nothing without CUDA

    def is_finished(self, candidate: Candidate) -> bool:
        """Return whether earlier runs have saved all scores of a candidate, or the rankings to make them from."""
        return all(self._is_finished(candidate, split) for split in self.splits)

    def _is_finished(self, candidate: Candidate, split: Split) -> bool:
        if self.asked is None:
            return self.cache.find(candidate.identity, split) is not None
        is_enough = not split.is_judged or self.is_deep_enough(split)
        return is_enough and self.cache.find_rankings(candidate.identity, self.asked) is not None

    def work(self, candidate: Candidate, n_tokens: int) -> tuple[int, int]:
        """Return the tokens that a pass has yet to encode, and all that it reads: documents, and terms for expansion.

        Args:
            candidate: an unfinished candidate of the pass.
            n_tokens: the tokens that its model reads of all documents.
        """
        unfinished = [
            one for one in self.candidates if one.passes == candidate.passes and not self.is_finished(one)
        ]
        n_left = 0.0
        encoding = None
        if candidate.resolved is not None:
            expected = missing = 0
            for split in self.splits:
                encoding = self._encoding(candidate, candidate.resolved, split)
                texts = split.documents.texts
                missing += sum(map(estimated_tokens, encoding.not_cached(texts)))
                expected += sum(map(estimated_tokens, texts))
            n_left += n_tokens * missing / max(expected, 1)
        elif candidate.method is not None:  # only terms
            of_terms = resolve(Method.parse(candidate.method.encoder))
            encoding = Encoding(Encoder(lambda: self._model(candidate.passes, of_terms)))
            encoding.vectors(Pooling())
        if (
            encoding is not None
            and encoding.ours is not None
            and any(one.expands_queries for one in unfinished)
        ):
            read = encoding.ours.model.backbone.token_ids
            terms = sorted(self._terms)
            n_left += sum(map(len, read(encoding.not_cached(terms)) or []))
            n_tokens += sum(map(len, read(terms) or []))
        return int(n_left), n_tokens

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
        if candidate.kind == "bm25" and candidate.method is not None:
            lexical = PassageBM25(candidate.method)  # its windows, without query expansion
            lexical.fit(split.documents)
            return lexical.passages(queries, indices)
        if candidate.resolved is None or (candidate.passes, split.label) not in self._encodings:
            return None
        scorer = self._scorer(candidate, split)
        vectors = scorer.shown if isinstance(scorer, Index) else None
        if vectors is None or not vectors.shows_vectors:
            texts = split.documents.texts
            return [[(0, len(texts[index])) for index in of_query] for of_query in indices]
        if len(vectors.stored) < len(split.documents):
            return None
        return vectors.passages(queries, indices)

    # ---- costs -------------------------------------------------------------------------------------------

    @cached_property
    def _terms(self) -> set[str]:
        return terms_of(self.splits)

    @property
    def term_tokens(self) -> int:
        """Estimated tokens of encoding each term of the documents, for query expansion."""
        return TOKENS_PER_TERM * len(self._terms)

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
        if candidate.kind == "bm25":
            return Cost(n_term_tokens, share_read=share_read_by_bm25(self.splits, candidate.target_len))
        resolved = candidate.resolved
        if resolved is None:
            return self.cache.cost(
                candidate.identity, self.splits, self._device, lambda: estimate(self.splits, None)
            )
        # search settings change neither vectors nor the speed of encoding
        of_model = replace(resolved, method=resolved.method.model)
        cost = self.cache.cost(
            of_model.identity, self.splits, self._device, lambda: self._measured(candidate, resolved)
        )
        cost = replace(cost, tokens=cost.tokens + n_term_tokens)
        # BM25 is added to weighted vectors and to the unchanged model's vectors
        if resolved.method.fusion and resolved.method.weights and cost.vectors and cost.bytes:
            cost = replace(cost, vectors=2 * cost.vectors, bytes=2 * cost.bytes)
        if resolved.method.query == "tokens" and cost.vectors and cost.bytes:
            # the vectors of late interaction are kept in int8
            width = round(cost.bytes / cost.vectors / 4)
            cost = replace(cost, bytes=cost.vectors * bytes_of("int8", width))
        return replace(cost, text_bytes=self.text_bytes)

    def _measured(self, candidate: Candidate, resolved: Resolved) -> Cost:
        """Count the cost of a model on the documents."""
        plain = self._model(candidate.passes, resolved)
        cost = count(plain, self.splits, candidate.target_len, resolved.vectors)
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
