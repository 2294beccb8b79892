"""The scores of models by task, with the gains of strategies over their bases; the table and the figure by length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from mteb_longembed.errors import InputError
from mteb_longembed.figures import GRID, panels

from .results import REAL_TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The longest split in tokens that counts in a task's mean, as in the paper. Longer ones are only in the figure.
LONGEST = 32768
#: The lengths of the paper's table of Passkey and Needle, in tokens.
LENGTHS = tuple(256 << step for step in range(8))
#: Means over LongEmbed's six tasks in mteb's public results, as of August 2026.
PUBLIC = {"BM25": 90.9, "GTE-ModernColBERT-v1 (several vectors)": 90.6, "F2LLM-v2-8B (one vector)": 76.6}
#: The columns that identify a model.
_MODEL = ["base", "commit", "model", "revision", "strategy", "target"]


def by_strategy(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model, by base, with its scores by task, their average, and the gain over its base.

    A task's score is the mean of its splits. It is missing if the model lacks a split that another model here has,
    and the average is missing if a task is, variants aside. Passkey and Needle are generated here or published
    (LEMB): if both are present, each has an average. NanoLongEmbed has its own. The gain is the mean over the tasks
    that both have, whose number is `shared`. The base has the same commit: `+none` at the shortest target, or else
    mteb's own entry.

    Args:
        results: the frame of `load_results`.
    """
    frame = results[~(results["length"] > LONGEST)]
    # in revisions of our models, the commit is followed by the version of the algorithms (`-le3`, `-le3-se3`)
    frame = frame.assign(commit=frame["revision"].str.replace("-le[0-9]+([.-].*)?$", "", regex=True))
    by_split = frame.pivot(index=_MODEL, columns=["task", "split"], values="score")
    means = {task: by_split[task].mean(axis=1, skipna=False) for task in sorted(set(frame["task"]))}
    scores = pd.DataFrame(means, by_split.index)
    table = scores.copy()
    for name, tasks in _averaged(list(scores)).items():
        table[name] = scores[tasks].mean(axis=1, skipna=False)
    table = table.assign(gain=None, shared=None)
    for _, group in scores.groupby(["base", "commit"]):
        bases = group[group.index.get_level_values("strategy") == "none"]
        if not bases.empty:
            base = bases.sort_index(level="target", na_position="last").iloc[0]
            gains = group.drop(index=base.name).sub(base)
            table.loc[gains.index, "gain"] = gains.mean(axis=1)
            table.loc[gains.index, "shared"] = gains.notna().sum(axis=1)
    table = table.astype({"gain": float, "shared": "Int64"}).reset_index()
    table = table.sort_values(["base", "commit", "gain", "average"], ascending=[True, True, False, False])
    is_twice = table.duplicated("model", keep=False)
    short = table["revision"].str.replace("^(.{8})[^-]*", r"\1", regex=True)
    table.loc[is_twice, "model"] += " (" + short[is_twice] + ")"
    return table.drop(columns=[name for name in _MODEL if name != "model"]).reset_index(drop=True)


def _averaged(tasks: Sequence[str]) -> dict[str, list[str]]:
    """Return the tasks of each average. Variants, with a hyphen in the name, count only if nothing else was run."""
    usual = [task for task in tasks if "-" not in task] or list(tasks)
    nano = [task for task in usual if task.startswith("Nano")]
    published = [task for task in usual if task.startswith("LEMB")]
    generated = [task for task in usual if task in ("LongEmbedPasskey", "LongEmbedNeedle")]
    longer = [task for task in usual if task not in nano]
    averages = {"average": longer or nano}
    if nano and longer:
        averages["average Nano"] = nano
    if published and generated:
        averages["average"] = [task for task in longer if task not in published]
        averages["average LEMB"] = [task for task in longer if task not in generated]
    return averages


def averages_of(results: pd.DataFrame) -> list[str]:
    """Return for each average of `by_strategy` one sentence: the tasks, and the splits of each."""
    frame = results[~(results["length"] > LONGEST)]
    sentences = []
    for name, tasks in _averaged(sorted(set(frame["task"]))).items():
        parts = []
        for task in tasks:
            lengths = frame[frame["task"] == task].sort_values("length")
            parts.append(f"{task} ({', '.join(lengths['split'].unique())})")
        counts = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
        sentences.append(f"{name}: the mean over {counts}, each the mean of its splits: {', '.join(parts)}.")
    return sentences


def covers_benchmark(results: pd.DataFrame) -> bool:
    """Return whether the results have all splits of LongEmbed's six tasks, from one model or several.

    A model that lacks a split of another one has no average, so all averages are then over all splits.
    """
    lengths = results.groupby("task")["length"].agg(set)
    has_all = {task for task, of_task in lengths.items() if of_task.issuperset(LENGTHS)}
    generated = [{"LongEmbedPasskey", "LongEmbedNeedle"}, {"LEMBPasskeyRetrieval", "LEMBNeedleRetrieval"}]
    return any(pair <= has_all for pair in generated) and set(REAL_TASKS) <= set(lengths.index)


def _with_length(results: pd.DataFrame, failure: str) -> pd.DataFrame:
    """Return the results of splits by length; InputError, beginning with `failure`, if there are none."""
    with_length = results.dropna(subset=["length"])
    if with_length.empty:
        raise InputError(f"{failure}: no result has splits such as test_1024.")
    return with_length


def by_length(results: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of tasks with splits by length, one row for each model, as in the paper's table.

    A cell without a score has the reason: `not run`, or `> 4096` if the split was not run and is longer than the
    target of the model. The mean is over `LENGTHS`.

    Args:
        results: the frame of `load_results`.

    Raises:
        InputError: if no task has splits by length.
    """
    frame = _with_length(results, "there is no table by length")
    frame = frame.assign(extends=frame["strategy"] != "none")
    order = ["task", "base", "extends", "model", "revision"]
    scores = frame.pivot(index=[*order, "target"], columns="length", values="score")
    lengths = sorted({*LENGTHS, *map(int, scores.columns)})
    rows = []
    for key, of_model in scores.reindex(columns=lengths).sort_index().iterrows():
        task, _, _, model, _, target = key
        row: dict[str, object] = {"task": task, "model": model}
        for length, score in of_model.items():
            is_longer = pd.notna(target) and length > target
            reason = f"> {target:.0f}" if is_longer else "not run"
            row[f"{length:.0f}"] = score if pd.notna(score) else reason
        mean = of_model[list(LENGTHS)].mean(skipna=False)
        row["mean"] = mean if pd.notna(mean) else "not all run"
        rows.append(row)
    return pd.DataFrame(rows)


def draw(results: pd.DataFrame) -> Figure:
    """Draw scores by length, a panel per task and a line per model; intervals would need scores by query.

    Args:
        results: the frame of `load_results`.

    Raises:
        InputError: if no task has splits by length.
    """
    lengths = _with_length(results, "there is nothing to draw by length")
    tasks = list(lengths["task"].unique())
    models = list(lengths["model"].unique())
    figure, all_axes = panels(5.4 * len(tasks), 4 + 0.16 * len(models), len(tasks))
    for axes, task in zip(all_axes, tasks, strict=True):
        of_task = lengths[lengths["task"] == task]
        curves = of_task.pivot_table("score", "length", "model").reindex(columns=models)
        axes.plot(curves.index, curves.to_numpy(), marker="o", label=models)
        axes.set_xscale("log", base=2)
        axes.set_xticks(curves.index, [f"{int(length):,}" for length in curves.index], rotation=45)
        axes.set(title=task, xlabel="tokens of a document", ylim=(-2, 102))
        axes.grid(axis="y", color=GRID)
    all_axes[0].set_ylabel("main score (%)")
    handles, _ = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, models, loc="outside lower center", frameon=False)
    return figure
