"""Does a task need long context? This measures its score for each number of tokens that a model may read.

If a model gets nearly the same score from the first 512 tokens as from whole documents, the task says nothing about
long context. The paper (section 3) uses this argument against BEIR and LoCo.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.types import PromptType

from mteb_longembed.errors import InputError, ModelError
from mteb_longembed.statistics.bootstrap import mean_of_means_interval
from mteb_longembed.statistics.intervals import Interval
from mteb_longembed.tasks.beir import beir_task
from mteb_longembed.tasks.cutting import counter_of
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
    whole: dict[str, Interval]  # for each model, the score on documents that we do not cut
    document_lens: list[int]  # the length of every document in tokens, counted for the first model
    counted_by: dict[str, str]  # for each model, how tokens are counted
    #: one sentence for each kind of query or document not scored
    counted: list[str] = field(default_factory=list)
    #: for each model that does not read the longest documents to their end, the tokens that it reads at most, special
    #: tokens and prompts included.
    stops_at: dict[str, int] = field(default_factory=dict)

    def enough(self, model: str, share: float = 0.95) -> int | None:
        """The smallest tried length that gives this share of the score on whole documents, None if none does."""
        wanted = share * self.whole[model].mean
        return min((n for n, value in self.curves[model].items() if value.mean >= wanted), default=None)

    def longer_than(self, length: int) -> float:
        """The percentage of documents longer than this number of tokens."""
        return 100 * sum(n > length for n in self.document_lens) / len(self.document_lens)


def diagnose(
    task: str | AbsTaskRetrieval,
    models: Sequence[str | Any] = (BM25,),
    lengths: Sequence[int] = LENGTHS,
    splits: Sequence[str] | None = None,
) -> Diagnosis:
    """Score a task with its documents cut after each of these lengths, and whole.

    A length beyond what a model reads at most is not tried with it, because it would not read so much.

    Args:
        task: an mteb retrieval task or its name, or a folder in BEIR's file format.
        models: names that `mteb.get_model` knows (ours among them), or loaded models.
        lengths: tokens of a document's own text, without special tokens and prompts.
        splits: splits of a task that is given by its name; by default all splits that are scored.

    Raises:
        InputError: a length below one token, an unknown task, or a task that is not text retrieval.
        DataError: a damaged BEIR folder.
        ModelError: a model without the packages that it needs.
    """
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must be whole numbers of at least 1 token, got {list(lengths)}.")
    chosen = find_task(task, splits) if isinstance(task, str) else task
    check_text_retrieval("diagnose", chosen)
    whole, tried = _load(chosen), sorted(set(lengths))
    counted = [sentence for split in chosen.eval_splits for sentence in left_out(chosen, split)]
    curves: dict[str, dict[int, Interval]] = {}
    wholes: dict[str, Interval] = {}
    document_lens: list[int] = []
    counted_by: dict[str, str] = {}
    stops_at: dict[str, int] = {}
    for given in models:
        try:
            model = mteb.get_model(given) if isinstance(given, str) else given
        except ImportError as error:  # mteb's message says what to install
            raise ModelError(str(error)) from error
        name = given if isinstance(given, str) else _name(given)
        counter = counter_of(model, name)
        measured = {
            part: [counter.ends(text, tried) for text in data["corpus"]["text"]]
            for part, data in whole.items()
        }
        found_lens = [n_tokens for documents in measured.values() for n_tokens, _ in documents]
        document_lens = document_lens or found_lens
        counted_by[name] = counter.name
        wholes[name] = _score(chosen, model, whole)
        curves[name] = {}
        most = _reads_at_most(model)
        if most is not None and most < max(found_lens):
            stops_at[name] = most
        for place, length in enumerate(tried):
            if length > stops_at.get(name, length):
                break
            nothing_cut = length >= max(found_lens)
            curves[name][length] = (
                wholes[name] if nothing_cut else _score(chosen, model, _cut(whole, measured, place))
            )
    _put(chosen, whole)
    score = chosen.metadata.main_score.replace("ndcg_at_", "nDCG@").replace("_at_", "@")
    return Diagnosis(
        chosen.metadata.name, score, curves, wholes, document_lens, counted_by, counted, stops_at
    )


def find_task(name: str, splits: Sequence[str] | None = None) -> AbsTaskRetrieval:
    """The task of mteb with this name, or the task in a folder of BEIR's format.

    Raises:
        InputError: the name is not that of a task or a folder.
        DataError: the folder does not have the files of that format.
    """
    if Path(name).is_dir():
        return beir_task(name, splits or ["test"])
    try:
        found: Any = mteb.get_task(name, eval_splits=list(splits) if splits else None)
        return found
    except KeyError as error:
        near = re.search(r"Did you mean: '(.+?)'", str(error.args[0]))
        hint = f"did you mean {near[1]!r}? " if near else ""
        raise InputError(
            f"unknown task {name!r}: {hint}give a retrieval task that `mteb available-tasks` lists, or a "
            "folder in BEIR's file format."
        ) from None


# subset and split -> documents, queries and judgements, as mteb keeps them
_Data = dict[tuple[str, str], RetrievalSplitData]


def check_text_retrieval(command: str, task: Any) -> None:
    """Raise InputError if a task is not text retrieval."""
    if not isinstance(task, AbsTaskRetrieval) or task.metadata.get_modalities(PromptType.document) != [
        "text"
    ]:
        name, kind = task.metadata.name, task.metadata.type
        raise InputError(
            f"{command} needs a text retrieval task, got {name}, which is {kind} ({task.metadata.category})."
        )


def _load(task: AbsTaskRetrieval) -> _Data:
    """The task's data. Title and text of each document are joined, as a model reads them."""
    task.load_data()
    task.convert_v1_dataset_format_to_v2(None)
    # we need only the main score; mteb's default of a thousand hits for each query is slower than the search
    depth = task.metadata.main_score.rpartition("_at_")[2]
    if depth.isdigit():
        task.k_values = tuple(sorted({1, int(depth)}))  # mteb itself needs the first rank
        task._top_k = int(depth)
    parts = [(subset, split) for subset in task.hf_subsets for split in task.eval_splits]
    loaded = {(subset, split): task.dataset[subset][split] for subset, split in parts}
    return {
        part: _with_texts(data, chain.from_iterable(texts_of(data["corpus"])))
        for part, data in loaded.items()
    }


def _with_texts(data: RetrievalSplitData, texts: Iterable[str]) -> RetrievalSplitData:
    return {**data, "corpus": Dataset.from_dict({"id": data["corpus"]["id"][:], "text": list(texts)})}


#: For each subset and split, and each of its documents: the number of tokens, and the places to cut it.
_Measured = dict[tuple[str, str], list[tuple[int, list[int]]]]


def _cut(data: _Data, measured: _Measured, place: int) -> _Data:
    """The data with each document cut at its place of this number."""
    return {
        part: _with_texts(
            found,
            (
                text[: ends[place]]
                for text, (_, ends) in zip(found["corpus"]["text"], measured[part], strict=True)
            ),
        )
        for part, found in data.items()
    }


def _put(task: AbsTaskRetrieval, data: _Data) -> None:
    for (subset, split), found in data.items():
        task.dataset[subset][split] = found.copy()  # mteb replaces entries while it evaluates


def _score(task: AbsTaskRetrieval, model: Any, data: _Data) -> Interval:
    _put(task, data)
    with tempfile.TemporaryDirectory() as folder:
        # without the cache: these scores are not results of the task
        mteb.evaluate(
            model, task, cache=None, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
        )
        (path,) = Path(folder).glob("*_predictions.json")
        found = json.loads(path.read_bytes())
    _put(task, data)  # mteb has replaced some entries
    scores = [
        score_queries(task, split, {subset: found[subset][split] for subset in task.hf_subsets})
        for split in task.eval_splits
    ]
    return mean_of_means_interval([list(each.values()) for each in scores]).scaled(100)


def _reads_at_most(model: Any) -> int | None:
    """How many tokens of a document a model reads, None if it reads all or does not say."""
    inner = getattr(model, "embedder", None) or getattr(model, "model", None) or model
    first = getattr(inner, "first", None)
    most = getattr(inner, "max_seq_length", None) if first is None else first.longest
    most = most or getattr(getattr(model, "mteb_model_meta", None), "max_tokens", None)
    return None if most is None or most >= _NO_LIMIT else int(most)


def _name(model: Any) -> str:
    meta = getattr(model, "mteb_model_meta", None)
    return getattr(meta, "name", None) or type(model).__name__
