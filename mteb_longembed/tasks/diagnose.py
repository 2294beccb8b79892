"""Does a task need long context? Its score as a function of how much of each document may be read.

Where a model that reads the first 512 tokens scores nearly as well as one that reads all, the task says
nothing about long context: the paper's argument (section 3) against BEIR and LoCo.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.types import PromptType

from mteb_longembed.errors import InputError, ModelError
from mteb_longembed.statistics.bootstrap import queries_interval
from mteb_longembed.statistics.intervals import Interval, mean_of_intervals
from mteb_longembed.tasks.beir import beir_task
from mteb_longembed.tasks.cutting import Counter, counter_of
from mteb_longembed.tasks.scoring import score_queries

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
BM25 = "mteb/baseline-bm25s"


@dataclass(frozen=True)
class Diagnosis:
    """One task, read by one model or more.

    Args:
        task: its name.
        score: what the score is, e.g. `nDCG@10`.
        curves: by model, the score in percent by the number of tokens of each document it may read, with its 95 %
            interval over queries.
        whole: by model, the score in percent when nothing is cut, with its interval.
        document_lens: the length of every document in tokens.
        counted_by: how tokens are counted, by model; `document_lens` as for the first.
    """

    task: str
    score: str
    curves: dict[str, dict[int, Interval]]
    whole: dict[str, Interval]
    document_lens: list[int]
    counted_by: dict[str, str]

    def enough(self, model: str, share: float = 0.95) -> int | None:
        """The fewest tokens tried that give this share of the whole documents' score; None if none does."""
        reached = [
            n
            for n, value in sorted(self.curves[model].items())
            if value.mean >= share * self.whole[model].mean
        ]
        return reached[0] if reached else None

    def longer_than(self, length: int) -> float:
        """The percentage of documents longer than so many tokens."""
        return 100 * sum(n > length for n in self.document_lens) / len(self.document_lens)

    def save(self, path: str | Path) -> None:
        """Write everything as JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def diagnose(
    task: str | AbsTaskRetrieval,
    models: Sequence[str | Any] = (BM25,),
    lengths: Sequence[int] = LENGTHS,
    splits: Sequence[str] | None = None,
) -> Diagnosis:
    """Score a task with its documents cut after each of these lengths, and whole.

    Args:
        task: an mteb retrieval task or its name, or a folder in BEIR's file format.
        models: names that `mteb.get_model` knows (ours among them), or loaded models.
        lengths: tokens of a document's own text, without special tokens and prompts.
        splits: of the task; by default all that it is scored on.

    Raises:
        InputError: a length below one token, an unknown task, or a task that is no text retrieval.
        DataError: a damaged BEIR folder.
        ModelError: BM25 without the package it needs.
    """
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must be whole numbers of at least 1 token, got {list(lengths)}.")
    chosen = find_task(task, splits) if isinstance(task, str) else task
    _check(chosen)
    if splits and not isinstance(task, str):
        chosen.filter_eval_splits(splits)
    whole = _load(chosen)
    curves: dict[str, dict[int, Interval]] = {}
    wholes: dict[str, Interval] = {}
    document_lens: list[int] = []
    counted_by: dict[str, str] = {}
    for given in models:
        model = load_model(given) if isinstance(given, str) else given
        name = given if isinstance(given, str) else _name(given)
        counter = counter_of(model, name)
        found_lens, cuts = _measure(whole, counter, sorted(set(lengths)))
        document_lens = document_lens or found_lens
        counted_by[name] = counter.name
        wholes[name] = _score(chosen, model, whole)
        curves[name] = {}
        for place, length in enumerate(sorted(set(lengths))):
            nothing_cut = length >= max(found_lens)
            curves[name][length] = (
                wholes[name] if nothing_cut else _score(chosen, model, _cut(whole, cuts, place))
            )
    _put(chosen, whole)
    score = chosen.metadata.main_score.replace("ndcg_at_", "nDCG@").replace("_at_", "@")
    return Diagnosis(chosen.metadata.name, score, curves, wholes, document_lens, counted_by)


def find_task(name: str, splits: Sequence[str] | None = None) -> AbsTaskRetrieval:
    """The mteb task of that name, or that of a folder in BEIR's file format.

    Raises:
        InputError: neither a task of mteb nor a folder.
        DataError: a folder without the files of that format.
    """
    if Path(name).is_dir():
        return beir_task(name, *(splits or ())[:1])
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


def load_model(name: str) -> Any:
    """The model that mteb knows by that name.

    Raises:
        ModelError: BM25 without the package it needs.
    """
    try:
        return mteb.get_model(name)
    except ImportError as error:
        if name != BM25:
            raise
        raise ModelError(
            f"{BM25} needs packages that are not installed: pip install 'mteb[bm25s]'."
        ) from error


# subset -> split -> documents, queries and judgements, as mteb keeps them
_Data = dict[str, dict[str, RetrievalSplitData]]


def _check(task: Any) -> None:
    if not isinstance(task, AbsTaskRetrieval) or task.metadata.get_modalities(PromptType.document) != [
        "text"
    ]:
        raise InputError(
            "diagnose cuts the documents of a text retrieval task, "
            f"{task.metadata.name} is {task.metadata.type} ({task.metadata.category})."
        )


def _load(task: AbsTaskRetrieval) -> _Data:
    """The task's data, each document's title and text joined as a model reads them."""
    task.load_data()
    task.convert_v1_dataset_format_to_v2(None)
    # only the main score is wanted: mteb's default of a thousand hits a query takes longer than the search
    depth = task.metadata.main_score.rpartition("_at_")[2]
    if depth.isdigit():
        task.k_values = tuple(sorted({1, int(depth)}))  # mteb itself looks up the first
        task._top_k = int(depth)
    data: _Data = {}
    for subset in task.hf_subsets:
        for split in task.eval_splits:
            found = task.dataset[subset][split]
            corpus = found["corpus"]
            titles = corpus["title"] if "title" in corpus.column_names else [""] * len(corpus)
            texts = [
                f"{title or ''} {text}".strip() for title, text in zip(titles, corpus["text"], strict=True)
            ]
            joined = Dataset.from_dict({"id": corpus["id"][:], "text": texts})
            data.setdefault(subset, {})[split] = {**found, "corpus": joined}
    return data


def _parts(data: _Data) -> list[tuple[str, str]]:
    return [(subset, split) for subset, splits in data.items() for split in splits]


def _measure(
    data: _Data, counter: Counter, lengths: Sequence[int]
) -> tuple[list[int], dict[tuple[str, str], list[list[int]]]]:
    """Every document's length, and per subset and split and document where to cut it for each length."""
    document_lens: list[int] = []
    cuts: dict[tuple[str, str], list[list[int]]] = {}
    for subset, split in _parts(data):
        cuts[subset, split] = []
        for text in data[subset][split]["corpus"]["text"]:
            n_tokens, ends = counter.ends(text, lengths)
            document_lens.append(n_tokens)
            cuts[subset, split].append(ends)
    return document_lens, cuts


def _cut(data: _Data, cuts: dict[tuple[str, str], list[list[int]]], place: int) -> _Data:
    made: _Data = {}
    for subset, split in _parts(data):
        corpus = data[subset][split]["corpus"]
        ends = cuts[subset, split]
        texts = [text[: end[place]] for text, end in zip(corpus["text"], ends, strict=True)]
        short = Dataset.from_dict({"id": corpus["id"][:], "text": texts})
        made.setdefault(subset, {})[split] = {**data[subset][split], "corpus": short}
    return made


def _put(task: AbsTaskRetrieval, data: _Data) -> None:
    for subset, split in _parts(data):
        task.dataset[subset][split] = data[subset][split].copy()  # mteb replaces entries while it evaluates


def _score(task: AbsTaskRetrieval, model: Any, data: _Data) -> Interval:
    _put(task, data)
    with tempfile.TemporaryDirectory() as folder:
        # never from the cache nor into it: these are not the task's results
        mteb.evaluate(
            model, task, cache=None, prediction_folder=folder, co2_tracker=False, show_progress_bar=False
        )
        (path,) = Path(folder).glob("*_predictions.json")
        found = json.loads(path.read_bytes())
    _put(task, data)  # mteb has replaced some entries
    parts = []
    for split in task.eval_splits:
        scores = score_queries(task, split, {subset: found[subset][split] for subset in task.hf_subsets})
        parts.append(queries_interval(list(scores.values()), task.metadata.main_score))
    return mean_of_intervals(parts).scaled(100)


def _name(model: Any) -> str:
    meta = getattr(model, "mteb_model_meta", None)
    card = getattr(model, "model_card_data", None)
    return getattr(meta, "name", None) or getattr(card, "model_name", None) or type(model).__name__
