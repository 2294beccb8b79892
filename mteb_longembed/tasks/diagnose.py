"""Does a task need long context? This measures its score for each number of tokens that a model may read.

If a model gets nearly the same score from the first 512 tokens as from whole documents, the task says nothing about
long context. The paper (section 3) uses this argument against BEIR and LoCo.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import cast

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.models import MTEBModels

from mteb_longembed.errors import InputError, ModelError
from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.tasks.cutting import counter_of
from mteb_longembed.tasks.data import Data, check_text_retrieval
from mteb_longembed.tasks.scoring import left_out, score_queries, texts_of

#: What a model gives as its longest input in tokens if it has no limit: at least this, or infinity.
_NO_LIMIT = 10**9

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
BM25 = "mteb/baseline-bm25s"


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one task with one or more models; scores in percent, with their 95 % intervals over queries."""

    task: str
    score: str  # the name of the score, such as `nDCG@10`
    #: for each model, the score by the number of tokens read of each document
    curves: dict[str, dict[int, Interval]]
    uncut: dict[str, Interval]  # for each model, the score on documents that we do not cut
    document_lens: list[int]  # the length of every document in tokens, counted for the first model
    counted_by: dict[str, str]  # for each model, how tokens are counted
    #: one sentence for each kind of query or document not scored
    counted: list[str] = field(default_factory=list)
    #: for each model that does not read the longest documents to their end, the tokens that it reads at most, special
    #: tokens and prompts included.
    stops_at: dict[str, int] = field(default_factory=dict)

    def enough(self, model: str, share: float = 0.95) -> int | None:
        """The smallest tried length that gives this share of the score on whole documents, None if none does."""
        wanted = share * self.uncut[model].mean
        return min((n for n, value in self.curves[model].items() if value.mean >= wanted), default=None)

    def longer_than(self, length: int) -> float:
        """The percentage of documents longer than this number of tokens."""
        return 100 * sum(n > length for n in self.document_lens) / len(self.document_lens)


def diagnose(
    task: Data | str | AbsTaskRetrieval,
    models: Sequence[str | MTEBModels] = (BM25,),
    lengths: Sequence[int] = LENGTHS,
    splits: Sequence[str] | None = None,
) -> Diagnosis:
    """Score a task with its documents cut after each of these lengths, and whole.

    A length beyond what a model reads at most is not tried with it, because it would not read so much.

    Args:
        task: an mteb retrieval task or its name, a folder in BEIR's file format, or `Data` with one task.
        models: names that `mteb.get_model` knows (ours among them), or loaded models.
        lengths: tokens of a document's own text, without special tokens and prompts.
        splits: splits of a task that is given by its name; by default all splits that are scored.

    Raises:
        InputError: a length below one token, an unknown task, several tasks, or one that is not text retrieval.
        DataError: a damaged BEIR folder.
        ModelError: a model without the packages that it needs.
    """
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must be whole numbers of at least 1 token, got {list(lengths)}.")
    if not isinstance(task, Data):
        task = Data.from_tasks(task, splits=splits if isinstance(task, str) else None)
    if len(task.tasks) != 1:
        raise InputError(f"diagnose needs exactly one task, got {len(task.tasks)}.")
    (task,) = task.tasks
    check_text_retrieval("diagnose", task)
    uncut, tried = _load(task), sorted(set(lengths))
    score = task.metadata.main_score.replace("ndcg_at_", "nDCG@").replace("_at_", "@")
    counted = [sentence for split in task.eval_splits for sentence in left_out(task, split)]
    diagnosis = Diagnosis(task.metadata.name, score, {}, {}, [], {}, counted)
    for model in models:
        try:
            loaded = mteb.get_model(model) if isinstance(model, str) else model
        except ImportError as error:  # mteb's message says what to install
            raise ModelError(str(error)) from error
        name = model if isinstance(model, str) else _name(model)
        counter = counter_of(loaded, name)
        texts = {part: data["corpus"]["text"] for part, data in uncut.items()}
        measured = {part: [counter.ends(text, tried) for text in texts[part]] for part in uncut}
        document_lens = [n_tokens for documents in measured.values() for n_tokens, _ in documents]
        if not diagnosis.document_lens:
            diagnosis.document_lens.extend(document_lens)
        longest, most = max(document_lens), _reads_at_most(loaded)
        diagnosis.counted_by[name] = counter.name
        diagnosis.uncut[name] = _score(task, loaded, uncut)
        if most is not None and most < longest:
            diagnosis.stops_at[name] = most
        # a length beyond all documents cuts nothing
        diagnosis.curves[name] = {
            length: _score(task, loaded, _cut(uncut, measured, index))
            if length < longest
            else diagnosis.uncut[name]
            for index, length in enumerate(tried)
            if length <= diagnosis.stops_at.get(name, length)
        }
    _put(task, uncut)
    return diagnosis


# subset and split -> documents, queries and judgements, as mteb keeps them
_Parts = dict[tuple[str, str], RetrievalSplitData]


def _load(task: AbsTaskRetrieval) -> _Parts:
    """The task's data. Title and text of each document are joined, as a model reads them."""
    task.load_data()
    task.convert_v1_dataset_format_to_v2(None)
    # we need only the main score; mteb's default of a thousand hits for each query is slower than the search
    depth = task.metadata.main_score.rpartition("_at_")[2]
    if depth.isdigit():
        task.k_values = tuple(sorted({1, int(depth)}))  # mteb itself needs the first rank
        task._top_k = int(depth)
    return {
        (subset, split): _with_texts(data, chain.from_iterable(texts_of(data["corpus"])))
        for subset in task.hf_subsets
        for split in task.eval_splits
        for data in [task.dataset[subset][split]]
    }


def _with_texts(data: RetrievalSplitData, texts: Iterable[str]) -> RetrievalSplitData:
    return {**data, "corpus": Dataset.from_dict({"id": data["corpus"]["id"][:], "text": list(texts)})}


#: For each subset and split, and each of its documents: the number of tokens, and the characters at which to cut it.
_Measured = dict[tuple[str, str], list[tuple[int, list[int]]]]


def _cut(parts: _Parts, measured: _Measured, index: int) -> _Parts:
    """The data with each document cut at its end of this index."""
    cut = {}
    for part, data in parts.items():
        documents = zip(data["corpus"]["text"], measured[part], strict=True)
        cut[part] = _with_texts(data, (text[: ends[index]] for text, (_, ends) in documents))
    return cut


def _put(task: AbsTaskRetrieval, parts: _Parts) -> None:
    for (subset, split), data in parts.items():
        task.dataset[subset][split] = data.copy()  # mteb replaces entries while it evaluates


def _score(task: AbsTaskRetrieval, model: MTEBModels, parts: _Parts) -> Interval:
    _put(task, parts)
    with tempfile.TemporaryDirectory() as folder:
        # without the cache: these scores are not results of the task
        mteb.evaluate(
            model, task, cache=None, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
        )
        (path,) = Path(folder).glob("*_predictions.json")
        rankings = json.loads(path.read_bytes())
    _put(task, parts)  # mteb has replaced some entries
    scores = [
        score_queries(task, split, {subset: rankings[subset][split] for subset in task.hf_subsets})
        for split in task.eval_splits
    ]
    return mean_of_means_interval([list(by_query.values()) for by_query in scores]).scaled(100)


def _reads_at_most(model: object) -> int | None:
    """How many tokens of a document a model reads, None if it reads all or does not say."""
    inner = getattr(model, "embedder", None) or getattr(model, "model", None) or model
    first = getattr(inner, "first", None)
    most = getattr(inner, "max_seq_length", None) if first is None else first.longest
    most = most or getattr(getattr(model, "mteb_model_meta", None), "max_tokens", None)
    return None if most is None or most >= _NO_LIMIT else int(most)


def _name(model: object) -> str:
    name = getattr(getattr(model, "mteb_model_meta", None), "name", None)
    return cast("str", name or type(model).__name__)
