from __future__ import annotations

from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.scores import length_tables, main_tables
from tests.reports.made import BASE, PUBLISHED, lines, rows


def _texts(row):
    return [cell.text for cell in row]


def test_one_table_for_each_kind_of_data():
    results = rows("a/b", 0.5) + rows("a/c", 0.5, data=PUBLISHED)
    tables = main_tables(score_lines(results))
    assert [table.key for table in tables] == ["main-generated", "main-published"]
    assert [[row[0].text for row in table.rows] for table in tables] == [["a/b"], ["a/c"]]


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


def test_a_tie_as_printed_has_no_best():
    (table,) = main_tables(lines({"a/b": 0.6081, "a/c": 0.6079, "a/d": 0.6}))
    assert not any(row[-1].is_best for row in table.rows)


def test_one_highest_number_is_the_best():
    (table,) = main_tables(lines({"a/b": 0.61, "a/c": 0.6, "a/d": 0.6}))
    assert [row[-1].is_best for row in table.rows] == [True, False, False]


def test_zero_is_never_the_best():
    (table,) = main_tables(lines({"a/b": 0.0, "a/c": 0.0004}))
    assert not any(cell.is_best for row in table.rows for cell in row)


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


def test_our_own_organisation_is_not_repeated():
    (table,) = main_tables(lines({"mteb-longembed/mini-rope+ntk@4096": 0.5}))
    assert table.rows[0][0].text == "mini-rope+ntk@4096"


def test_lengths_beyond_the_papers_get_columns():
    from dataclasses import replace

    (one, *_) = rows(BASE, 0.5, only=["Passkey"])
    results = [one, replace(one, split="test_65536")]
    (table,) = length_tables(score_lines(results))
    assert table.header[1:] == ("256", "512", "1024", "2048", "4096", "8192", "16384", "32768", "65536")
    assert _texts(table.rows[0])[1:] == ["50.0", *["-"] * 7, "50.0"]
