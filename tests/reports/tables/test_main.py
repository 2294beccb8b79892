from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.paper_tables import length_tables, main_tables, strategy_tables
from mteb_longembed.reports.tables.table import Cell, difference_cell, number_cell
from tests.reports.made import BASE, lines, rows


def _texts(row):
    return [cell.text for cell in row]


def test_the_best_is_one_highest_number_as_printed():
    # one, a tie as printed, zeros
    for scores, n_best in (((0.61, 0.6, 0.6), 1), ((0.6081, 0.6079, 0.6), 0), ((0.0, 0.0004), 0)):
        (table,) = main_tables(lines({f"a/{i}": score for i, score in enumerate(scores)}))
        assert sum(row[-1].is_best for row in table.rows) == n_best


def test_a_column_without_any_result_is_left_out():
    (table,) = main_tables(lines({"a/b": 0.5, "a/c": 0.6}, only=["Passkey", "QMSum"]))
    assert table.without_empty_columns().header == ["Model", "Passkey", "QMSum", "Average"]


def test_accuracies_carry_the_interval_of_their_fifty_queries():
    (table,) = length_tables(lines({"a/b": 0.5}, only=["Passkey"]))
    cell = table.rows[0][1]
    # Wilson's interval of 25 out of 50, by hand: 36.6 to 63.4.
    assert (cell.text, cell.bounds) == ("50.0", "[37,63]")
    assert table.notes[0].startswith("[low,high]: 95 % interval")


def test_an_accuracy_that_is_not_of_fifty_queries_has_no_interval():
    (table,) = length_tables(lines({"a/b": 0.41}, only=["Passkey"]))
    assert (table.rows[0][1].text, table.rows[0][1].bounds) == ("41.0", "")
    assert table.notes == ()


def test_lengths_beyond_the_papers_get_columns():
    from dataclasses import replace

    (one, *_) = rows(BASE, 0.5, only=["Passkey"])
    results = [one, replace(one, split="test_65536")]
    (table,) = length_tables(score_lines(results))
    assert table.header[1:] == ["256", "512", "1024", "2048", "4096", "8192", "16384", "32768", "65536"]
    assert _texts(table.rows[0])[1:] == ["50.0", *["-"] * 7, "50.0"]


def test_without_the_base_there_are_no_differences_and_a_note_says_so():
    (table,) = strategy_tables(lines({f"{BASE}+ntk@4096": 0.45}))
    assert table.rows[0][2].text == "45.0"
    assert "no results of the base itself" in table.notes[0]


def test_halves_are_rounded_up_in_every_table():
    # The mean of Acc@1 over eight lengths is a multiple of a quarter: 93.25 must not be 93.2 and 93.75 be 93.8.
    values = (93.25, 93.75, 100 * 0.0725, -0.25, -0.04, 57.99999999999999)
    shown = [number_cell(value).text for value in values]
    assert shown == ["93.3", "93.8", "7.3", "-0.3", "0.0", "58.0"]
    assert difference_cell(Cell("", 93.25), Cell("", 93.0)).text == "+0.3"
