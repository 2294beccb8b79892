from __future__ import annotations

import pytest

from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.scores import length_tables, main_tables, statistics_table, strategy_tables
from tests.reports.made import BASE, lines, rows


def _texts(row):
    return [cell.text for cell in row]


def test_the_best_average_comes_first_and_partial_lines_last():
    results = rows("a/low", 0.4) + rows("a/part", 0.9, only=["QMSum"]) + rows("a/high", 0.6)
    (table,) = main_tables(score_lines(results))
    assert [row[0].text for row in table.rows] == ["a/high", "a/low", "a/part"]


def test_a_partial_mean_shows_its_parts_and_is_never_the_best():
    results = rows("a/part", 0.9, only=["Passkey"], splits=["test_256", "test_512"]) + rows("a/b", 0.5)
    results += rows("a/c", 0.4)
    (table,) = main_tables(score_lines(results))
    part = table.rows[-1]
    assert _texts(part)[3:] == ["90.0 (2/8)", "-", "-", "-", "-", "-", "-"]
    assert part[3].number is None
    assert not part[3].is_best
    assert table.rows[0][3].is_best
    assert any("Partial" in note for note in table.notes)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ((0.61, 0.6, 0.6), [True, False, False]),
        ((0.6081, 0.6079, 0.6), [False] * 3),
        ((0.0, 0.0004), [False] * 2),
    ],
    ids=["one", "tie as printed", "zero"],
)
def test_the_best_is_one_highest_number_as_printed(scores, best):
    (table,) = main_tables(lines({f"a/{i}": score for i, score in enumerate(scores)}))
    assert sorted((row[-1].is_best for row in table.rows), reverse=True) == best


def test_a_column_without_any_result_is_left_out():
    (table,) = main_tables(lines({"a/b": 0.5, "a/c": 0.6}, only=["Passkey", "QMSum"]))
    assert table.without_empty_columns().header == ("Model", "Passkey", "QMSum", "Average")


def test_accuracies_carry_the_interval_of_their_fifty_queries():
    (table,) = length_tables(lines({"a/b": 0.5}, only=["Passkey"]))
    cell = table.rows[0][1]
    # Wilson's interval of 25 out of 50, by hand: 36.6 to 63.4.
    assert cell.shown == "50.0 [37,63]"
    assert table.notes[0].startswith("[low,high]: 95 % interval")


def test_an_accuracy_that_is_not_of_fifty_queries_has_no_interval():
    (table,) = length_tables(lines({"a/b": 0.41}, only=["Passkey"]))
    assert table.rows[0][1].shown == "41.0"
    assert table.notes == ()


def test_lengths_beyond_the_papers_get_columns():
    from dataclasses import replace

    (one, *_) = rows(BASE, 0.5, only=["Passkey"])
    results = [one, replace(one, split="test_65536")]
    (table,) = length_tables(score_lines(results))
    assert table.header[1:] == ("256", "512", "1024", "2048", "4096", "8192", "16384", "32768", "65536")
    assert _texts(table.rows[0])[1:] == ["50.0", *["-"] * 7, "50.0"]


def test_differences_are_points_over_the_base():
    (table,) = strategy_tables(lines({f"{BASE}+none@512": 0.3, f"{BASE}+ntk@4096": 0.45}))
    assert [cell.text for cell in table.rows[0]][:3] == ["base", "512", "30.0"]
    assert table.rows[1][0].text == "+ntk"
    assert {cell.text for cell in table.rows[1][2:]} == {"45.0 (+15.0)"}


def test_a_partial_column_has_no_difference():
    results = rows(f"{BASE}+none@512", 0.3) + rows(
        f"{BASE}+ntk@4096", 0.4, only=["Passkey"], splits=["test_256"]
    )
    (table,) = strategy_tables(score_lines(results))
    assert table.rows[1][2].text == "40.0 (1/8)"


def test_without_the_base_there_are_no_differences_and_a_note_says_so():
    (table,) = strategy_tables(lines({f"{BASE}+ntk@4096": 0.45}))
    assert table.rows[0][2].text == "45.0"
    assert "no results of the base itself" in table.notes[0]


def test_the_published_counts_of_every_task_and_length():
    table = statistics_table()
    by_task = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert by_task["LEMBNarrativeQARetrieval"][2:] == ["10,449", "355", "9.0", "50,474", "326,753"]
    assert [row[0].text for row in table.rows].count("LEMBPasskeyRetrieval") == 8
