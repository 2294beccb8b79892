"""The tables of a comparison in the terminal, and its page: what it loads, how it may break, texts of strangers."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from mteb_longembed.comparing.compare import Comparison
from mteb_longembed.comparing.figure import draw_figure
from mteb_longembed.comparing.page import Table, as_json, page, ranking_table
from mteb_longembed.comparing.summary import by_split
from mteb_longembed.comparing.verdict import Advice, Note, Setting
from tests.comparing.frames import BASE, GOOD, KEY, LEXICAL, answers, frame, summary

HOSTILE = "../a\x1b[31m|b\n# c $x$ \\input{/etc/passwd} [red]<script>alert(1)</script>[/red] *_`~^&%#{}\u202e"
LONG = replace(
    GOOD, name="org/mine+pcw@32768:score=softmax,vectors=window,weights=idf,whiten=0.5", kind="search"
)
SHORT = replace(GOOD, name="org/mine+pcw@2048:size=128,vectors=window")
RIGHT = {LONG: 36, SHORT: 35, LEXICAL: 24, BASE: 8}


def comparison(use: str = "Use it.", **changes: Any) -> Comparison:
    """A comparison of four candidates on 40 queries."""
    made = summary(RIGHT, of={LONG: {"flops": 8e6}})
    scores = frame({candidate: {KEY: answers(right)} for candidate, right in RIGHT.items()})
    fields = {
        "scores": scores,
        "rows": made,
        "by_split": by_split(scores),
        "advice": Advice("undecided", LONG.id, LONG.id, "type this", use, "Why.", "Price."),
        "notes": [Note("data", "one line"), Note("caution", "Mind."), Note("left out", "No.")],
        "tasks": ["LongEmbedQMSum"],
        "metrics": ["nDCG@10"],
        "setting": Setting(n_queries=40, n_clusters=13),
        "n_documents": 9,
        "is_complete": True,
        "identity": "abcdef0123",
        "written": "2026-01-02 03:04 UTC",
    }
    return Comparison(**{**fields, **changes})


# ---- the terminal


def test_the_table_says_what_is_known_of_each_candidate_and_hostile_names_are_shown_whole() -> None:
    table = ranking_table(comparison())
    columns = ["candidate", "nDCG@10", "to best", "within 2", "standing"]
    assert list(table.cells)[:5] == columns
    assert list(table.cells["standing"]) == ["best", "not separated", "behind", "behind"]
    assert table.cells["to best"][0] == "-"
    assert re.fullmatch(r"-2\.5 \[-\d+,\+\d+\]", table.cells["to best"][1])
    equal = ranking_table(comparison(rows=summary({LONG: 30, SHORT: 30})))
    assert list(equal.cells["to best"]) == ["-", "same"]
    row = {HOSTILE: HOSTILE, "Score": "1.0 [0,2]", "[2]": "[1]"}
    text = Table.of("strategies", HOSTILE, [row]).as_text()
    assert all(line.isprintable() for line in text.split("\n"))
    assert "".join(text.split()).count("<script>alert(1)</script>[/red]") == 3  # title, column, cell


# ---- the page


def test_nothing_is_loaded_from_elsewhere_and_ids_are_unique() -> None:
    text = page(comparison(), "mteb-longembed compare <b>")
    assert "compare &lt;b&gt;" in text and page(comparison(), "mteb-longembed compare <b>") == text
    ids = re.findall(r'\sid="([^"]*)"', text)
    links = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert links and all(link.startswith("#") for link in links)
    assert "default-src 'none'" in text and not re.search(r"@import|url\((?!#)", text)
    assert len(ids) == len(set(ids)) and {"table-compare", "standings"} <= set(ids)
    assert {link[1:] for link in links} | set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def test_texts_of_others_have_no_control_characters_wherever_they_stand() -> None:
    odd = "a\x1b[31m\udcff"
    made = comparison(
        advice=Advice("winner", LONG.id, LONG.id, odd, odd, odd, odd),
        notes=[Note("caution", odd), Note("left out", odd)],
        tasks=[odd],
        written=odd,
    )
    text = page(made, odd)
    assert "\x1b" not in text and text.encode()
    assert text.count("a\ufffd[31m\ufffd") == 9


def test_json_has_no_nan_and_notes_with_their_kinds() -> None:
    plain = json.loads(as_json(comparison()), parse_constant=pytest.fail)
    assert {row["candidate"] for row in plain["candidates"]} == set(comparison().summary.index)
    assert (plain["signature"], plain["n_clusters"]) == (comparison().signature, 13)
    assert plain["notes"][0] == {"kind": "data", "text": "one line"}


# ---- figures


def test_the_figure_has_scores_and_differences_and_shades_what_is_within_two_points() -> None:
    made = comparison()
    scores, differences = draw_figure(made).axes
    labels = [label.get_text().replace("\n", "") for label in scores.get_yticklabels()]
    assert labels == list(made.summary["label"])
    (band,) = [patch for patch in differences.patches if patch.get_width() > 0]
    assert (band.get_x(), band.get_x() + band.get_width()) == (-2, 2)

    def points(axes: Any) -> list[float]:
        return [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o"]

    assert points(scores) == pytest.approx(list(made.summary["score"]))
    assert points(differences) == pytest.approx(list(made.summary["to_best"].dropna()))
