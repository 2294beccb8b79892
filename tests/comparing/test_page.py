"""The tables of a comparison, in the terminal and on the page, and what they say of the data."""

import io
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mteb_longembed.comparing.page import ranking_table
from mteb_longembed.comparing.pictures import colour_of, draw_standings
from mteb_longembed.comparing.terminal import show
from tests.comparing.frames import row

TAILS = (
    "pcw@32768:fuse=bm25,split=sentence,vectors=window",
    "pcw@2048:size=128,vectors=window",
    "ntk@32768:vectors=64",
)
ROWS = [
    row(f"org/mine+{TAILS[0]}", 85, "leader", first=0.6, gain=(33, 28, 38)),
    row(f"org/mine+{TAILS[1]}", 84, "equal", best=(-1, -3, 2), gain=(32, 28, 38), first=0.4),
    row(f"org/mine+{TAILS[2]}", 60, "out", best=(-25, -30, -20), gain=(8, 2, 12)),
    row("org/mine+none@512", 52, "out", best=(-33, -38, -28), base=True),
]
COMPARISON: Any = SimpleNamespace(
    rows=ROWS, tasks=["LongEmbedQMSum"], metrics=["nDCG@10"], n_queries=1527, counted=["one line"]
)


def shown(width: int, **options: bool) -> str:
    out = io.StringIO()
    show([ranking_table(COMPARISON)], Console(file=out, width=width, color_system=None), **options)
    return out.getvalue()


def test_the_table_marks_leaders_equals_and_those_that_are_out() -> None:
    table = ranking_table(COMPARISON)
    places = [dict(zip(table.header, cells, strict=True)) for cells in table.rows]
    assert [place["stands"].text for place in places] == ["leads", "equal", "out", "out"]
    assert [place["first in"].text for place in places] == ["60 %", "40 %", "0 %", "0 %"]
    assert table.classes == ("leader", "equal", "out", "out")
    assert len({colour_of(one) for one in ROWS}) == 3


def test_a_narrow_terminal_breaks_names_at_their_signs_alone() -> None:
    rows = [replace(one, label=f"{one.label}:score=softmax,vectors=window,weights=sif") for one in ROWS]
    out = io.StringIO()
    comparison: Any = SimpleNamespace(**{**vars(COMPARISON), "rows": rows})
    show([ranking_table(comparison)], Console(file=out, width=80), notes=False)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("vectors=window,") == text.count("weights=sif") == len(rows)
    assert "60 %" in text, "only intervals stand below their numbers"


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_shows_whole_names_and_says_what_it_leaves_out(width) -> None:
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert all(one.label.split(",")[0].split(":")[0] in words for one in ROWS)
    (note,) = re.findall(r"No room here for (.*?): the page and the JSON have them\.", words)
    left_out = note.split(", ")
    assert left_out == ["p adj.", "KB/doc", "vectors", "read", "to base"][: len(left_out)]


def test_a_wide_terminal_shows_all_columns_and_the_legend_only_if_asked() -> None:
    text = shown(220)
    assert "No room here" not in text and {"KB/doc", "vectors", "1.00"} <= set(text.split())
    assert "Stands." in text and "Stands." not in shown(220, notes=False)


def test_the_picture_shades_the_band_of_the_first_one() -> None:
    (axes,) = draw_standings(COMPARISON).figure.axes
    (band,) = [patch for patch in axes.patches if patch.get_width() > 0]
    low, high = ROWS[0].score.low, ROWS[0].score.high
    assert (band.get_x(), band.get_x() + band.get_width()) == (pytest.approx(low), pytest.approx(high))
    assert [label.get_text().replace("\n", "") for label in axes.get_yticklabels()] == [
        one.label for one in ROWS
    ]
