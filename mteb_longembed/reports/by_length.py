"""The figure of a report: scores by the length of documents, a panel for each task and a line for each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from mteb_longembed.errors import InputError
from mteb_longembed.figures import GRID, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: pd.DataFrame) -> Figure:
    """The figure, without intervals: result files have no scores of single queries.

    Args:
        results: as `load_results` gives them.

    Raises:
        InputError: if no task has splits by length.
    """
    import matplotlib  # takes a second, and most reports draw nothing
    from matplotlib.figure import Figure

    lengths = results.dropna(subset=["length"])
    if lengths.empty:
        raise InputError("there is nothing to draw by length: no result has splits such as test_1024.")
    tasks = list(lengths["task"].unique())
    models = list(lengths["model"].unique())
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(5.4 * len(tasks), 4 + 0.16 * len(models)), layout="constrained")
        panels = figure.subplots(1, len(tasks), squeeze=False, sharey=True)[0]
    for axes, task in zip(panels, tasks, strict=True):
        curves = (
            lengths[lengths["task"] == task].pivot_table("score", "length", "model").reindex(columns=models)
        )
        axes.plot(curves.index, curves.to_numpy(), marker="o", label=models)
        axes.set_xscale("log", base=2)
        axes.set_xticks(curves.index, [f"{int(length):,}" for length in curves.index], rotation=45)
        axes.set(title=task, xlabel="tokens of a document", ylim=(-2, 102))
        axes.grid(axis="y", color=GRID)
    panels[0].set_ylabel("main score (%)")
    handles, _ = panels[0].get_legend_handles_labels()
    figure.legend(handles, models, loc="outside lower center", frameon=False)
    return figure
