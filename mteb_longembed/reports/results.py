"""The results of `mteb run` as one DataFrame: a row for each model, task and split.

Results are files `<org>__<name>/<revision>/[experiments/<experiment>/]<Task>.json` with `model_meta.json` beside them,
at any depth, also in copies of the public results repository. mteb is not used, so a report over thousands of files
needs no torch.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.files import Json, printable, read_json
from mteb_longembed.names import name_of, revision_of
from mteb_longembed.values import read_tokens

COLUMNS = ("model", "revision", "base", "strategy", "target", "task", "split", "length", "data", "score")
#: Prefixes of the names of LongEmbed's tasks, ours and mteb's own.
PREFIXES = ("LongEmbed", "LEMB", "NanoLongEmbed")
#: The four real tasks have the same data under mteb's names and ours. Passkey and Needle do not: ours are generated.
_SAME_DATA = {
    "LEMBNarrativeQARetrieval": "LongEmbedNarrativeQA",
    "LEMBQMSumRetrieval": "LongEmbedQMSum",
    "LEMBSummScreenFDRetrieval": "LongEmbedSummScreenFD",
    "LEMBWikimQARetrieval": "LongEmbed2WikiMultihopQA",
}
REAL_TASKS = tuple(_SAME_DATA.values())
#: Revision of data that moved to another repository -> their revision before. mteb's descriptive statistics of both are
#: equal to the last digit for each split (numbers of texts; shortest, longest and mean lengths).
_MOVED = {"86ac5a6437198a94ecd666440c78b3e78f258274": "6e346642246bfb4928c560ee08640dc84d074e8c"}


def load_results(folders: Sequence[str | Path]) -> tuple[pd.DataFrame, list[str]]:
    """Load all results of LongEmbed's tasks below the folders, and a note on each skipped file.

    The frame has `COLUMNS`: `score` is the task's main score in percent, `length` the number of tokens in the split's
    name, `data` the revision of the data. The four real tasks have our names.

    Args:
        folders: folders of mteb's results, at any depth.

    Raises:
        InputError: if a folder does not exist.
    """
    rows: list[Json] = []
    problems = []
    for folder in map(Path, folders):
        if not folder.exists():
            raise InputError(f"there is no results folder {str(folder)!r}: give one that `mteb run` wrote.")
        for path in sorted(folder.rglob("*.json")):
            if path.stem.startswith(PREFIXES) and not path.stem.endswith("_predictions"):
                try:
                    rows += _read_results(path)
                except (DataError, OSError) as error:
                    problems.append(f"skipped {printable(str(path))}: {error}")
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "path"]).drop_duplicates([*COLUMNS])
    # two revisions of data are two tasks; a table never has both
    usual = frame.groupby("task")["data"].transform(lambda revisions: revisions.mode().iloc[0])
    reasons = {
        "another file has another score for it": frame.duplicated(["model", "revision", "task", "split"]),
        "most results of its task are on another revision of the data": frame["data"] != usual,
    }
    is_left_out = pd.Series(False, index=frame.index)
    for reason, is_so in reasons.items():
        problems += [f"skipped {path}: {reason}." for path in frame.loc[is_so, "path"].unique()]
        is_left_out |= is_so
    return frame.loc[~is_left_out, [*COLUMNS]].reset_index(drop=True), problems


def _read_results(path: Path) -> list[Json]:
    """Read the rows of a result file, one for each split."""
    result = read_json(path)
    scores = result.get("scores")
    if not isinstance(scores, dict):
        raise DataError("its 'scores' is not an object with one entry for each split.")
    task = printable(str(result.get("task_name") or path.stem))  # a copy may have another name
    revision = printable(str(result.get("dataset_revision") or ""))
    data = _MOVED.get(revision, revision)
    task = _SAME_DATA.get(task, task)
    if task in _SAME_DATA.values():
        data = ""
    shared = {**_read_model(path.parent), "task": task, "data": data, "path": printable(str(path))}
    rows = []
    for split, subsets in scores.items():
        try:
            frame = pd.DataFrame(subsets)
            (value,) = frame.loc[frame["hf_subset"] == "default", "main_score"]
            score = float(value)
        except (TypeError, ValueError, KeyError):
            raise DataError(f"its split {split!r} has no main_score of one subset 'default'.") from None
        if not 0 <= score <= 1:
            raise DataError(f"its 'main_score' of split {split!r} must be from 0 to 1, got {score:g}.")
        row = {"split": printable(split), "length": split_length(split), "score": 100 * score}
        rows.append({**shared, **row})
    return rows


def _read_model(folder: Path) -> Json:
    """Read `model_meta.json` beside a result. Only experiments with a strategy have another base."""
    try:
        meta: Json = read_json(folder / "model_meta.json")
        experiment: Json = dict(meta.get("experiment_kwargs") or {})
        name = printable(name_of(str(meta["name"]), experiment))
        revision = printable(revision_of(meta.get("revision") or folder.name, experiment))
        model: Json = {"model": name, "revision": revision, "base": name}
        model |= {"strategy": "none", "target": None}
        if "strategy" in experiment:
            model["base"] = printable(str(meta["name"]))
            model["strategy"] = printable(str(experiment["strategy"]))
            if "target_len" in experiment:
                model["target"] = read_tokens("the target", experiment["target_len"])
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"model_meta.json beside it lacks a name or 'experiment_kwargs': {error}.") from None
    return model


def split_length(split: str) -> int | None:
    """Return the context length in tokens of a split such as `test_4096`, None for other splits.

    >>> split_length("test_4096"), split_length("validation")
    (4096, None)
    """
    match = re.fullmatch("test_([0-9]{1,9})", split)
    if match is None:
        return None
    return int(match[1])
