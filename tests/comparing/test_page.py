"""The tables of a comparison in the terminal, and its page: what it loads, how it may break, texts of strangers."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import pandas as pd
import pytest

from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.figure import draw_costs, draw_figure, first_rows
from mteb_longembed.comparing.page import Table, as_json, failures_table, page, ranking_table
from mteb_longembed.comparing.summary import by_split, summarise
from mteb_longembed.comparing.verdict import Advice, Note, Setting
from mteb_longembed.names import with_preset
from tests.comparing.frames import BASE, GOOD, KEY, LEXICAL, answers, cost, frame, queries_of, summary

HOSTILE = "../a\x1b[31m|b\n# c $x$ \\input{/etc/passwd} [red]<script>alert(1)</script>[/red] *_`~^&%#{}\u202e"
LONG = replace(GOOD, name="org/mine+windows:score=softmax,weights=idf,whiten=0.5", kind="search")
SHORT = replace(GOOD, name="org/mine+windows@2048:size=128")
RIGHT = {LONG: 36, SHORT: 35, LEXICAL: 24, BASE: 8}


def comparison(use: str = "Use it.", **changes: Any) -> Comparison:
    """A comparison of four candidates on 40 queries."""
    made = summary(RIGHT, of={LONG: {"flops": 8e6}})
    scores = frame({candidate: {KEY: answers(right)} for candidate, right in RIGHT.items()})
    fields = {
        "scores": scores,
        "rows": made,
        "by_split": by_split(scores),
        "queries": queries_of(scores),
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


def failing(n: int, text: str, document: str) -> Comparison:
    """A comparison whose recommended candidate loses up to 1 on each of `n` queries, the last one most."""
    scores = {f"q{i}": 1 - i / n for i in range(1, n + 1)}
    right = frame({LONG: {KEY: scores}, LEXICAL: {KEY: dict.fromkeys(scores, 1.0)}})
    queries = pd.DataFrame(
        [(*KEY, query, f"{query} {text}", [document] * 9) for query in scores],
        columns=["task", "split", "query", "text", "relevant"],
    )
    rows = summarise(right, [LONG, LEXICAL], {LONG.id: cost()})
    return comparison(scores=right, rows=rows, by_split=by_split(right), queries=queries)


def test_long_queries_are_cut_so_a_page_of_five_thousand_stays_small() -> None:
    made = failing(5000, '"&<' * 2_000, "x" * 5000)
    text = page(made)
    assert len(text.encode()) < 3_000_000
    assert text.count("q5000 ") == 1 and "q4801 " in text and "q4800 " not in text
    found = failures_table(made)
    assert found is not None and len(found.cells) == 200
    assert (found.cells["query"].str.len() == 300).all() and found.cells["query"].str.endswith("…").all()
    lost = found.cells["lost"].astype(float)
    assert lost.is_monotonic_decreasing and lost[0] == 100.0
    assert found.cells["relevant documents"][0].endswith("… and 6 more")
    assert "on 5,000 of 40 queries" in found.notes[0] and found.notes[1] == "Shown: the 200 worst."


def test_long_names_break_behind_commas_and_colons() -> None:
    label = with_preset(LONG.name).removeprefix("org/mine").replace(":", ":<wbr>").replace(",", ",<wbr>")
    assert f'<td class="words">{label}</td>' in page(comparison())


def test_queries_and_ids_are_escaped() -> None:
    text = page(failing(7, HOSTILE, HOSTILE))
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_only_the_script_of_the_page_may_run_and_names_cannot_change_it() -> None:
    text = page(failing(7, HOSTILE, HOSTILE), HOSTILE)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in text
    assert "aria-sort" in script and not re.search(r"\son\w+=", text)


def test_cells_of_numbers_are_sorted_as_numbers_and_missing_ones_have_none() -> None:
    made = comparison(rows=summary({LONG: 36, SHORT: 36, LEXICAL: 24}, of={LONG: {"bytes": 2**21 * 1.0}}))
    shown = re.search(r'<table id="table-compare">(.*?)</table>', page(made), re.DOTALL)
    assert shown
    titles = re.findall(r"<th[^>]*>([^<]*)</th>", shown[1])
    rows = [
        re.findall(r'<td(?: data-sort="([^"]*)")?', row) for row in re.findall(r"<tr.*?</tr>", shown[1])[1:]
    ]
    assert titles == list(ranking_table(made).cells)
    keys = {title: [row[i] for row in rows] for i, title in enumerate(titles)}
    assert [float(key) for key in keys["KB/doc"][:2]] == [2048.0, 3.0] and keys["KB/doc"][2] == ""
    assert [float(key) for key in keys["to best"][:2]] == [0.0, 0.0] and float(keys["to best"][2]) == -30.0
    assert [float(key) for key in keys["nDCG@10"]] == [90.0, 90.0, 60.0]
    assert set(keys["candidate"]) == {""} == set(keys["standing"])


# ---- figures


def test_scores_are_drawn_against_costs_with_ranks_that_do_not_collide() -> None:
    # about 20 candidates of three sizes, and BM25
    models = [replace(GOOD, name=f"org/mine+pcw@{2048 + i}:vectors=window") for i in range(18)]
    right = {LEXICAL: 20, **dict.fromkeys(models, 30)}
    sizes = {model: {"bytes": 3072.0 * 8 ** (i % 3)} for i, model in enumerate(models)}
    made = comparison(
        rows=summary(right, of=sizes), advice=replace(comparison().advice, recommended=models[0].id)
    )
    figure = draw_costs(made)
    assert figure is not None
    figure.canvas.draw()
    bytes_axes, operations = (axes for axes in figure.axes if axes.axison)
    assert [text.get_text() for text in bytes_axes.get_xticklabels()] == ["0", "3", "24", "192"]
    assert [text.get_text() for text in operations.get_xticklabels()] == ["0", "0.001"]
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert len(boxes) in (19, 38)
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    points = {float(line.get_xdata()[0]): line for line in bytes_axes.lines if line.get_marker() == "o"}
    assert len(points) == 19
    assert sum(line.get_markeredgecolor() == "#000000" for line in points.values()) == 1
    lowest = points[min(points)]
    assert float(lowest.get_ydata()[0]) == pytest.approx(50.0)  # BM25 keeps no vector


def test_without_known_costs_there_is_no_figure_of_them() -> None:
    rows = summary({LONG: 36, LEXICAL: 8}, of={LONG: {"bytes": None, "flops": None}})
    made = comparison(rows=rows)
    assert draw_costs(made) is None and 'id="costs"' not in page(made)
    known = comparison(rows=summary({LONG: 36, LEXICAL: 8}, of={LONG: {"flops": None}}))
    assert 'id="costs"' in page(known) and "billion operations" not in page(known)


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


def test_the_first_picture_has_the_best_eight_the_base_and_bm25_and_all_are_on_request() -> None:
    many = [replace(BASE, name=f"org/mine+ntk@{4096 + i}", kind="strategy") for i in range(12)]
    rows = summary({**{one: 40 - i for i, one in enumerate(many)}, LEXICAL: 9, BASE: 8})
    shown = [row.id for row in first_rows(rows)]
    assert shown == [*(one.id for one in many[:8]), LEXICAL.id, BASE.id]
    advice = Advice("winner", many[0].id, many[0].id, "", "Use it.", "Why.", "Price.")
    right = {one: {KEY: answers(40 - i)} for i, one in enumerate(many)}
    scores = frame({**right, LEXICAL: {KEY: answers(9)}, BASE: {KEY: answers(8)}})
    made = comparison(rows=rows, advice=advice, scores=scores, by_split=by_split(scores))
    html = page(made)
    first, rest = html.split("<details>")
    assert many[11].name.removeprefix("org/mine") not in first
    assert 'aria-labelledby="all"' in rest and "All 14 candidates" in rest
    assert "<details>" not in page(replace(made, rows=first_rows(rows)))
