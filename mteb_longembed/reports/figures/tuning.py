"""The gain by tuning new positions, for PI and for RP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mteb_longembed.errors import UnknownNameError
from mteb_longembed.reports.figures.drawing import Drawing
from mteb_longembed.reports.figures.improvement import draw_bars, gains
from mteb_longembed.reports.scores.scoreboard import Line
from mteb_longembed.reports.tables.main import data_key, data_words
from mteb_longembed.statistics.intervals import Interval


@dataclass(frozen=True)
class TuningData:
    """Points gained by tuning, on one kind of data: label of the pair, then differences by column."""

    data: str
    bars: tuple[tuple[str, dict[str, Interval]], ...]


def tuning_data(lines: Sequence[Line], pairs: Sequence[tuple[str, str]]) -> list[TuningData]:
    """Compare each tuned model with the extended model before tuning.

    Args:
        lines: The score lines.
        pairs: Pairs of model names as in the results: before tuning, after tuning.

    Raises:
        UnknownNameError: If no result has one of the names.
    """
    names = {line.model.name.full for line in lines}
    for pair in pairs:
        for name in pair:
            if name not in names:
                raise UnknownNameError("model in the results", name, names)
    found = []
    for data in dict.fromkeys(line.data for line in lines):
        by_name = {line.model.name.full: line for line in lines if line.data == data}
        bars = []
        for before, after in pairs:
            if before in by_name and after in by_name:
                differences = gains(by_name[before], by_name[after])
                if differences:
                    bars.append((f"{by_name[before].model.name.variant} tuned", differences))
        if bars:
            found.append(TuningData(data, tuple(bars)))
    return found


def draw(data: TuningData) -> Drawing:
    """Draw the bars."""
    title = f"Points gained by tuning the new positions, {data_words(data.data)}"
    return draw_bars(f"tuning-{data_key(data.data)}", title, data.bars)
