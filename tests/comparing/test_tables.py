"""What the terminal shows of a comparison with long names."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mteb_longembed.comparing import tables
from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.reports.writers import show
from mteb_longembed.statistics.intervals import Interval

TAILS = (
    "pcw@32768:fuse=bm25,split=sentence,vectors=window",
    "pcw@2048:size=128,short=cut,vectors=window",
    "ntk@32768:vectors=64",
    "pcw@32768:center=corpus,how=multiply,fuse=bm25",
    "none@512",
)


def ranking(base: str) -> Any:
    """The table of one base, or of two, with a name for each tail and BM25."""
    cost = Cost(speeds=[13421, 15801, 16552], vectors=56.3, bytes=86_528, share_read=0.98)
    difference = Interval(-33.4, -38.2, -28.9)
    candidates = [Candidate(f"{base}+{tail}", base, tail == TAILS[-1]) for tail in TAILS]
    candidates += [
        Candidate(BM25, ""),
        *([] if base == "e5-base" else [Candidate("e5-base+gp@8", "e5-base")]),
    ]
    rows = [Row(one, Interval(85, 83, 86), difference, 0.0004, difference, cost) for one in candidates]
    comparison = SimpleNamespace(
        rows=rows, tasks=["LongEmbedQMSum"], metrics=["nDCG@10"], n_queries=1527, counted=[]
    )
    return tables.ranking_table(comparison)


def shown(table: Any, width: int) -> str:
    out = io.StringIO()
    show([table], Console(file=out, width=width, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("base", ["e5-base", "sentence-transformers/all-MiniLM-L6-v2"])
def test_at_80_columns_no_part_of_a_name_is_broken(base) -> None:
    table = ranking(base)
    text = shown(table, 80)
    assert max(map(len, text.splitlines())) <= 80
    words = text.split()
    for row in table.rows:
        for part in re.split("(?<=,)|(?=[+:])", row[1].text):
            assert any(part in word for word in words), part
    assert any("[13.4,16.6]" in word for word in words)
    (note,) = re.findall(r"No room here for (.*): the page and the JSON have them\.", " ".join(words))
    left_out = note.split(", ")
    assert left_out == ["p adj.", "KB/doc", "vectors", "read"][: len(left_out)]
    assert len(left_out) < 4 or base != "e5-base"


def test_a_wide_terminal_shows_all_columns() -> None:
    text = shown(ranking("e5-base"), 160)
    assert "No room here" not in text and {"KB/doc", "vectors", "84.50", "56.30"} <= set(text.split())
