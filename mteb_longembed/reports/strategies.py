"""The score of each model by task, and what its strategy gains over its base."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from .results import split_length

#: The longest split in tokens that a task's mean counts: the paper's. Longer ones are in the figure alone.
LONGEST = 32768
#: The splits by length that a task of the paper has: 256, 512, ... 32,768 tokens.
_N_LENGTHS = 8
#: Means over LongEmbed's six tasks in mteb's public results, as of August 2026.
PUBLIC = {"BM25": 90.9, "GTE-ModernColBERT-v1 (several vectors)": 90.6, "F2LLM-v2-8B (one vector)": 76.6}
#: What tells two models apart.
_MODEL = ["base", "commit", "model", "revision", "strategy", "target"]


def by_strategy(results: pd.DataFrame) -> pd.DataFrame:
    """One row for each model, by base, with its scores by task, their average, and the gain over its base.

    A task's score is the mean of its splits. It is missing if the model lacks a split that another model here has,
    and the average is missing if a task is, variants aside. Passkey and Needle are generated here or published
    (LEMB): if both are there, each has an average. NanoLongEmbed has its own. The gain is the mean over `shared`, the
    number of tasks that both have. The base is that of the same commit: `+none` at the shortest target, or else
    mteb's own entry. `splits` has the splits that are done, of those of the task, and `empty` says why a cell is.

    Args:
        results: as `load_results` gives them.
    """
    frame = results[~(results["length"] > LONGEST)]
    # behind the commit of our models is the version of the algorithms (`-le3`, `-le3-se3`)
    frame = frame.assign(commit=frame["revision"].str.replace("-le[0-9]+([.-].*)?$", "", regex=True))
    known = frame.groupby("task")["split"].agg(set)
    cells = frame.groupby([*_MODEL, "task"], dropna=False).agg(mean=("score", "mean"), done=("split", set))
    cells = cells.reset_index()
    cells.loc[cells["done"].map(len) < cells["task"].map(known.map(len)), "mean"] = None
    scores = cells.pivot(index=_MODEL, columns="task", values="mean")
    done = cells.pivot(index=_MODEL, columns="task", values="done").to_dict("records")
    table = scores.copy()
    averages = _averaged(list(scores))
    for name, tasks in averages.items():
        table[name] = scores[tasks].mean(axis=1, skipna=False)
    table = table.assign(gain=None, shared=None, no_gain="no base of the same commit")
    for _, group in scores.groupby(["base", "commit"]):
        base = _base_of(group)
        if base is None:
            continue
        gains = group.drop(index=base.name).sub(base)
        table.loc[gains.index, "gain"] = gains.mean(axis=1)
        table.loc[gains.index, "shared"] = gains.notna().sum(axis=1)
        table.loc[group.index, "no_gain"] = "no whole task in common with the base"
        table.loc[base.name, "no_gain"] = "this is the base"
    rows = table.to_dict("records")
    table["splits"] = [_splits_done(splits) for splits in done]
    table["empty"] = [_reasons(row, splits, known, averages) for row, splits in zip(rows, done, strict=True)]
    table = table.astype({"gain": float, "shared": "Int64"}).reset_index()
    table = table.sort_values(["base", "commit", "gain", "average"], ascending=[True, True, False, False])
    is_twice = table.duplicated("model", keep=False)
    short = table["revision"].str.replace("^(.{8})[^-]*", r"\1", regex=True)
    table.loc[is_twice, "model"] += " (" + short[is_twice] + ")"
    left_out = ["no_gain", *(name for name in _MODEL if name != "model")]
    return table.drop(columns=left_out).reset_index(drop=True)


def _averaged(tasks: Sequence[str]) -> dict[str, list[str]]:
    """The tasks of each average. Variants have a hyphen in their names; they count if nothing else was run."""
    usual = [task for task in tasks if "-" not in task] or list(tasks)
    nano = [task for task in usual if task.startswith("Nano")]
    usual = [task for task in usual if task not in nano]
    if not usual:
        return {"average": nano}
    of_nano = {"average Nano": nano} if nano else {}
    published = [task for task in usual if task.startswith("LEMB")]
    generated = [task for task in usual if task in ("LongEmbedPasskey", "LongEmbedNeedle")]
    if not (published and generated):
        return {"average": usual, **of_nano}
    return {
        **of_nano,
        "average": [task for task in usual if task not in published],
        "average LEMB": [task for task in usual if task not in generated],
    }


def _splits_done(done: Mapping[str, Any]) -> str:
    """How many splits of each task a model has, of those that the task has."""
    counts = []
    for task, splits in done.items():
        if isinstance(splits, set):
            n_all = 1
            if any(split_length(split) for split in splits):
                n_all = _N_LENGTHS
            counts.append(f"{task} {len(splits)}/{max(n_all, len(splits))}")
    return ", ".join(counts)


def _reasons(
    row: Mapping[str, Any], done: Mapping[str, Any], known: pd.Series, averages: Mapping[str, Sequence[str]]
) -> str:
    """Why cells of a model are empty."""
    counted = {task for tasks in averages.values() for task in tasks}
    reasons = []
    for task, splits in known.items():
        if not pd.isna(row[task]):
            continue
        if isinstance(done[task], set):
            reasons.append(f"{task}: lacks {', '.join(sorted(splits - done[task]))}")
        elif task in counted:
            reasons.append(f"{task}: not run")
        else:
            reasons.append(f"{task}: a variant, not run")
    reasons += [f"{name}: needs all tasks" for name in averages if pd.isna(row[name])]
    if pd.isna(row["gain"]):
        reasons.append(f"gain: {row['no_gain']}")
    return "; ".join(reasons)


def _base_of(group: pd.DataFrame) -> pd.Series | None:
    """The row of the base itself; None if there is none."""
    bases = group[group.index.get_level_values("strategy") == "none"]
    if bases.empty:
        return None
    return bases.sort_index(level="target", na_position="last").iloc[0]
