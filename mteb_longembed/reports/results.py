"""What `mteb run` writes, as one DataFrame: a row for each model, task and split.

Results are files `<org>__<name>/<revision>/[experiments/<experiment>/]<Task>.json` with `model_meta.json` beside them,
at any depth, also in copies of the public results repository. Up to version 0.7 our models were no experiments: their
whole name and the version of the algorithms stood in name and revision. They are the same models. mteb is not used, so
a report over thousands of files needs no torch.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.files import printable, read_json
from mteb_longembed.names import name_of, read_tokens, revision_of, split_name

COLUMNS = ("model", "revision", "base", "strategy", "target", "task", "split", "length", "data", "score")
#: How the names of LongEmbed's tasks begin, ours and mteb's own.
PREFIXES = ("LongEmbed", "LEMB", "NanoLongEmbed")
#: The four real tasks are the same data under mteb's names and ours. Passkey and Needle are not: ours are generated.
_SAME_DATA = {
    "LEMBNarrativeQARetrieval": "LongEmbedNarrativeQA",
    "LEMBQMSumRetrieval": "LongEmbedQMSum",
    "LEMBSummScreenFDRetrieval": "LongEmbedSummScreenFD",
    "LEMBWikimQARetrieval": "LongEmbed2WikiMultihopQA",
}
#: Data that moved to another repository, under their older revision. mteb's descriptive statistics of both, of each
#: split (numbers of texts, their shortest, longest and mean lengths), are equal to the last digit.
_MOVED = {"86ac5a6437198a94ecd666440c78b3e78f258274": "6e346642246bfb4928c560ee08640dc84d074e8c"}


def load_results(folders: Sequence[str | Path]) -> tuple[pd.DataFrame, list[str]]:
    """All results of LongEmbed's tasks below the folders, and one sentence for each that was skipped.

    Args:
        folders: results of mteb, with any folders in them.

    Returns:
        A frame with `COLUMNS`: `score` is the task's main score in percent, `length` the tokens that the split names,
        `data` the revision of the data. The four real tasks have our names.

    Raises:
        InputError: if a folder does not exist.
    """
    rows: list[dict[str, Any]] = []
    problems = []
    for path in _paths(map(Path, folders)):
        if not path.stem.startswith(PREFIXES) or path.stem.endswith("_predictions"):
            continue
        try:
            rows += _read_results(path)
        except (DataError, OSError) as error:
            problems.append(f"skipped {printable(str(path))}: {error}")
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "path"]).drop_duplicates([*COLUMNS])
    again = frame.duplicated(["model", "revision", "task", "split"])
    for row in frame[again].itertuples():
        problems.append(f"skipped {row.path}, split {row.split}: another file has another score for it.")
    frame = frame[~again]
    # data of two revisions are two tasks; one table never has both
    usual = frame.groupby("task")["data"].transform(lambda revisions: revisions.mode().iloc[0])
    for path in frame.loc[frame["data"] != usual, "path"].unique():
        problems.append(f"skipped {path}: most results of its task are on another revision of the data.")
    return frame.loc[frame["data"] == usual, [*COLUMNS]].reset_index(drop=True), problems


def _paths(folders: Iterable[Path]) -> list[Path]:
    """All JSON files in the folders."""
    paths: list[Path] = []
    for folder in folders:
        if not folder.exists():
            raise InputError(f"there is no results folder {str(folder)!r}: give one that `mteb run` wrote.")
        paths += sorted(folder.rglob("*.json"))
    return paths


def _read_results(path: Path) -> list[dict[str, Any]]:
    """The rows of a result file, one for each split."""
    result = read_json(path)
    scores = result.get("scores")
    if not isinstance(scores, dict):
        raise DataError("its 'scores' is not an object with one entry for each split.")
    shared = _read_model(path.parent)
    task = printable(str(result.get("task_name") or path.stem))  # a copy may have another name
    shared["task"] = _SAME_DATA.get(task, task)
    shared["data"] = ""
    if task not in _SAME_DATA and shared["task"] not in _SAME_DATA.values():
        revision = printable(str(result.get("dataset_revision") or ""))
        shared["data"] = _MOVED.get(revision, revision)
    shared["path"] = printable(str(path))
    rows = []
    for split, subsets in scores.items():
        score = _score(split, subsets)
        rows.append(
            {**shared, "split": printable(split), "length": split_length(split), "score": 100 * score}
        )
    return rows


def _score(split: str, subsets: object) -> float:
    """The main score of the subset `default`, from 0 to 1."""
    entries = []
    if isinstance(subsets, list):
        entries = [s for s in subsets if isinstance(s, dict) and s.get("hf_subset") == "default"]
    if len(entries) != 1:
        raise DataError(f"its split {split!r} has {len(entries)} subsets named 'default' instead of one.")
    value = entries[0].get("main_score")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(
            f"its 'main_score' of split {split!r} must be a number from 0 to 1, got {str(value)[:20]}."
        )
    return float(value)


def _read_model(folder: Path) -> dict[str, Any]:
    """What `model_meta.json` in the folder of a revision or an experiment says of the model."""
    try:
        meta = read_json(folder / "model_meta.json")
    except DataError as error:
        raise DataError(f"model_meta.json beside it: {error}") from None
    if not isinstance(meta.get("name"), str):
        raise DataError("model_meta.json beside it does not name a model.")
    experiment = meta.get("experiment_kwargs") or {}
    if not isinstance(experiment, dict):
        raise DataError("the 'experiment_kwargs' in model_meta.json beside it is no object.")
    name = printable(name_of(str(meta["name"]), experiment))
    revision = printable(revision_of(str(meta.get("revision") or folder.name), experiment))
    return {"model": name, "revision": revision, **_parts_of(name)}


def _parts_of(name: str) -> dict[str, Any]:
    """Base, strategy and target length of a model's name. A name without a strategy is a base."""
    base, strategy, target, _ = split_name(name)
    n_tokens = None
    is_ours = strategy is not None and strategy.isalnum()
    if is_ours and target is not None:
        try:
            n_tokens = read_tokens("the target", target)
        except InputError:
            is_ours = False  # another name that has a `+` and an `@`
    if not is_ours:
        return {"base": name, "strategy": "none", "target": None}
    return {"base": base, "strategy": strategy, "target": n_tokens}


def split_length(split: str) -> int | None:
    """The context length in tokens of a split such as `test_4096`, None for other splits.

    >>> split_length("test_4096"), split_length("validation")
    (4096, None)
    """
    match = re.fullmatch("test_([0-9]{1,9})", split)
    if match is None:
        return None
    return int(match[1])
