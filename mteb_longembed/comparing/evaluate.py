"""One candidate from its name to its scores and its cost. Its model is loaded once, and freed at the end."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import cast

import mteb
import pandas as pd
import torch
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models import ModelMeta, MTEBModels
from sentence_transformers.util import get_device_name

from mteb_longembed.data.check import Passages
from mteb_longembed.encoders.adapting.poolings import weighted
from mteb_longembed.encoders.engine.siblings import pooled_too
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.encoders.modules.token_weights import Rule
from mteb_longembed.errors import LongEmbedError
from mteb_longembed.retrieval.encoder import LongEncoder, LongMultiVectorSearch
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.vector_search import TaskOptions, VectorSearch

from .candidates import BM25, Candidate
from .costs import Cost, Key, LongModel, chunk_texts, count, measure, sample
from .evaluations import Evaluations
from .passages import DEPTH, PassageScores, first_answers, score_passages, show_passages

_SECONDS_PER_MINUTE = 60.0


class CandidateError(LongEmbedError):
    """A candidate cannot run; the others can."""


class OverBudgetError(LongEmbedError):
    """A candidate needs more time than the budget has left."""


@dataclass(frozen=True)
class Ground:
    """What all candidates of a comparison run on.

    Args:
        evaluations: where finished work is kept.
        splits: each split with its task.
        corpora: the documents of each split, one table for each subset.
        passages: the passages that answer, of the splits that know them.
        device: where models run, None for the best device of this machine.
        shows_windows: whether a candidate with one vector shows the best window of a document.
        on_message: called with sentences for the user.
        rules: the rules of corpus weights that candidates ask for, by the name of their encoder.
    """

    evaluations: Evaluations
    splits: Mapping[Key, tuple[AbsTaskRetrieval, str]]
    corpora: Mapping[Key, Sequence[Dataset]]
    passages: Mapping[Key, Passages]
    device: str | None
    shows_windows: bool
    on_message: Callable[[str], None]
    rules: Mapping[str, Sequence[Rule]] = field(default_factory=dict)

    @property
    def tasks(self) -> list[AbsTaskRetrieval]:
        """The tasks, each once."""
        by_name = {name: task for (name, _), (task, _) in self.splits.items()}
        return list(by_name.values())


@dataclass(frozen=True)
class Evaluated:
    """What is known of a candidate that has run.

    Args:
        candidate: the candidate.
        scores: one row for each query, see `evaluations.COLUMNS`.
        cost: its cost.
        passages: how well its passages answer, None if no task knows which ones do.
        seconds: wall time, with the time to read stored embeddings.
        tokens_encoded: tokens that were encoded now, without those of the speed's measurement.
        tokens_shared: tokens whose embeddings were known from other candidates or earlier runs.
        tokens_windows: tokens of windows that were encoded for passages, beside those.
    """

    candidate: Candidate
    scores: pd.DataFrame
    cost: Cost
    passages: PassageScores | None = None
    seconds: float = 0.0
    tokens_encoded: int = 0
    tokens_shared: int = 0
    tokens_windows: int = 0


@dataclass
class OneModel:
    """The model of a name: loaded at its first use, and freed at the end of the `with` block."""

    name: str
    device: str | None
    _loaded: list[MTEBModels] = field(default_factory=list)

    @property
    def model(self) -> MTEBModels:
        """mteb's object for the name."""
        if not self._loaded:
            self._loaded.append(mteb.get_model(self.name, device=self.device))
        return self._loaded[0]

    @property
    def encoder(self) -> LongModel | None:
        """Our encoder inside it, None if there is none."""
        inner = getattr(self.model, "embedder", getattr(self.model, "model", None))
        if isinstance(inner, LongModel):
            return inner
        return None

    def tokens(self) -> tuple[int, int]:
        """Tokens that were encoded, and tokens whose embeddings were known, up to now."""
        if not self._loaded:
            return 0, 0
        if self.encoder is None or self.encoder.store is None:
            return 0, 0
        counts = self.encoder.store.counts
        return counts.tokens_encoded, counts.tokens_read

    def __enter__(self) -> OneModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._loaded:
            return
        self._loaded.clear()
        gc.collect()
        torch.cuda.empty_cache()  # nothing without CUDA


def evaluate(
    candidate: Candidate, ground: Ground, budget_left: float = math.inf, *, is_encoded: bool = False
) -> Evaluated:
    """Run all evaluations of a candidate that earlier runs have not finished.

    Args:
        candidate: what to run.
        ground: on what.
        budget_left: seconds.
        is_encoded: whether another candidate has encoded the same vectors.

    Raises:
        OverBudgetError: if it would take longer than the budget allows.
        CandidateError: if it cannot run.
    """
    try:
        with OneModel(candidate.name, ground.device) as loaded:
            return _evaluate(candidate, ground, loaded, budget_left, is_encoded)
    except OverBudgetError:
        raise
    except (LongEmbedError, ImportError, OSError) as error:  # OSError: a name too long for mteb's folder
        raise CandidateError(str(error).partition("\n")[0]) from error
    except ValueError as error:
        if not candidate.matches_words:
            raise
        # bm25s has no error of its own
        raise CandidateError("it finds no word in the documents.") from error


def _evaluate(
    candidate: Candidate, ground: Ground, loaded: OneModel, budget_left: float, is_encoded: bool
) -> Evaluated:
    began = time.monotonic()
    evaluations = ground.evaluations
    meta = mteb.get_model_meta(candidate.name)
    tables = {key: evaluations.find(meta, *split) for key, split in ground.splits.items()}
    missing = [key for key, table in tables.items() if table is None]
    cost = _cost(candidate, ground, loaded)
    if missing and not is_encoded:
        seconds = expected_seconds(cost, ground, missing)
        is_over = seconds > max(budget_left, 0)
        if math.isinf(seconds):  # not known: it may run while there is time
            is_over = budget_left <= 0
        if is_over:
            raise OverBudgetError(f"{candidate.name}: {_minutes(seconds)}.")
    encoded_before, shared_before = loaded.tokens()
    for key in missing:
        task, split = ground.splits[key]
        if evaluations.exists(meta, task, split):
            ground.on_message(
                f"The ranking of {candidate.name} on {', '.join(key)} is not complete, so it runs again."
            )
        with pooled_too(_others_of_the_pass(candidate, ground, loaded, key)):
            tables[key] = evaluations.run(loaded.model, meta, task, split)
    encoded, shared = loaded.tokens()
    passages = _passages(candidate, meta, ground, loaded)
    scores = pd.concat(list(tables.values()), ignore_index=True)
    scores["candidate"] = candidate.name
    return Evaluated(
        candidate=candidate,
        scores=scores,
        cost=cost,
        passages=passages,
        seconds=time.monotonic() - began,
        tokens_encoded=encoded - encoded_before,
        tokens_shared=shared - shared_before,
        tokens_windows=loaded.tokens()[0] - encoded,
    )


def _others_of_the_pass(
    candidate: Candidate, ground: Ground, loaded: OneModel, key: Key
) -> list[LongModelMixin]:
    """Models of other candidates that only weight the tokens of this one's passes: their vectors are kept too."""
    task, split = ground.splits[key]
    rules = [rule for rule in ground.rules.get(candidate.encoder, ()) if rule != candidate.weights]
    search = loaded.model
    if len(task.hf_subsets) > 1:
        return []
    if isinstance(search, (LongEncoder, LongMultiVectorSearch)):
        search = VectorSearch(search)
    if not isinstance(search, VectorSearch):
        return []
    (corpus,) = ground.corpora[key]
    about: TaskOptions = {
        "task_metadata": task.metadata,
        "hf_split": split,
        "hf_subset": task.hf_subsets[0],
        "encode_kwargs": {},
        "num_proc": None,
    }
    counts = search.counts_of(corpus, **about)
    return [cast("LongModelMixin", weighted(search.embedder, counts, rule)) for rule in rules]


def _cost(candidate: Candidate, ground: Ground, loaded: OneModel) -> Cost:
    """The cost that an earlier run has measured, or that is measured now; nothing for BM25."""
    if not candidate.encoder:
        return Cost()
    # search parameters change no vector, and no speed of encoding
    meta = mteb.get_model_meta(candidate.encoder)
    known = ground.evaluations.find_cost(meta, ground.tasks)
    if known is not None:
        return known
    encoder = loaded.encoder
    split_text = None
    if isinstance(loaded.model, VectorSearch):
        split_text = loaded.model.chunks
    cost = count(encoder, ground.corpora, candidate.target_len, split_text)
    if encoder is not None:
        device = ground.device or get_device_name()
        corpora: list[Dataset] = []
        for parts in ground.corpora.values():
            corpora += parts
        texts = sample(corpora, torch.device(device).type)
        if split_text is not None:
            texts = chunk_texts(texts, split_text)
        if texts:
            speeds, n_bytes = measure(encoder, texts)
            place = f"{device}, {torch.get_num_threads()} threads"
            cost = replace(cost, speeds=speeds, device=place)
            if cost.vectors is not None:
                cost = replace(cost, bytes=cost.vectors * n_bytes)
    ground.evaluations.keep_cost(meta, ground.tasks, cost)
    return cost


def _passages(
    candidate: Candidate, meta: ModelMeta, ground: Ground, loaded: OneModel
) -> PassageScores | None:
    """Score the passages that a candidate shows, where a task knows those that answer."""
    answers = []
    for key, judged in ground.passages.items():
        task, split = ground.splits[key]
        shown = ground.evaluations.find_passages(meta, task, split, judged, ground.shows_windows)
        if shown is None:
            # the vectors of documents come from the store, in which the evaluation has put them
            searcher = Searcher(loaded.model, passages=ground.shows_windows)
            shown = show_passages(searcher, task, split, judged)
            ground.evaluations.keep_passages(meta, task, split, shown, ground.shows_windows)
        answers.append(first_answers(shown, judged))
    if not answers:
        return None
    return score_passages(answers)


def expected_seconds(cost: Cost, ground: Ground, splits: Sequence[Key]) -> float:
    """The time to encode the documents of some splits, 0 for BM25; infinite if it is not known."""
    n_tokens = cost.tokens_of(splits) + window_tokens(cost, ground, splits)
    if not n_tokens:
        return 0.0
    if not cost.tokens_per_second:
        return math.inf
    return n_tokens / cost.tokens_per_second


def window_tokens(cost: Cost, ground: Ground, splits: Sequence[Key]) -> int:
    """About the most tokens of windows for passages: with one vector, documents that judged queries can show."""
    if cost.vectors != 1 or not ground.shows_windows:
        return 0
    tokens = 0.0
    for key in splits:
        if key in ground.passages:
            n_documents = sum(map(len, ground.corpora[key]))
            tokens += cost.tokens_of([key]) * min(1, DEPTH * len(ground.passages[key]) / n_documents)
    return round(tokens)


def _minutes(seconds: float) -> str:
    if math.isinf(seconds):
        return "unknown time"
    return f"about {seconds / _SECONDS_PER_MINUTE:.1f} minutes"


def in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """BM25 first, which encodes nothing, then names that the user typed, then bases, then the rest as they come."""
    return sorted(candidates, key=lambda c: (c.name != BM25, not c.is_named, not c.is_base))
