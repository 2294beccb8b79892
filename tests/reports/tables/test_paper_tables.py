from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.paper_tables import (
    comparison_tables,
    length_tables,
    main_tables,
    paper_line,
    strategy_tables,
)
from mteb_longembed.reports.tables.table import number_cell
from tests.reports.made import BASE, PUBLISHED, ROTARY, line, lines, rows


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


def test_a_gain_is_marked_if_its_interval_leaves_out_0():
    (table,) = strategy_tables(
        lines({f"{BASE}+none@512": 0.5, f"{BASE}+pi@4096": 0.6, f"{BASE}+gp@4096": 0.52})
    )
    cells = {row[0].text: dict(zip(table.header, _texts(row), strict=True)) for row in table.rows}
    # 400 answers each: the ends of the difference lie about 7 points away
    assert (cells["+pi"]["Passkey"], cells["+gp"]["Passkey"]) == ("60.0 (+10.0)*", "52.0 (+2.0)")
    # an nDCG@10 of a result file has no interval
    assert (cells["+pi"]["QMSum"], cells["+pi"]["Average"]) == ("60.0 (+10.0)", "60.0 (+10.0)")
    assert any("*: the 95 % interval" in note for note in table.notes)


def test_the_same_base_strategy_and_length_of_the_paper_are_found():
    for name in (f"{ROTARY}+se@4096", f"{ROTARY}+se@4096:logn=off"):
        assert paper_line(line(name, 0.5)).model.name.full == f"{ROTARY}+se@4096"
    assert paper_line(line(f"{ROTARY}+se@2048", 0.5)) is None
    assert paper_line(line(f"{BASE}+none@512", 0.5)) is not None
    assert paper_line(line(f"{ROTARY}+none@4096", 0.5)) is None
    assert paper_line(line("somebody/else", 0.5)) is None


def test_a_score_beside_the_papers_has_its_difference_and_a_partial_one_has_none():
    whole, partial = line(BASE, 0.4, data=PUBLISHED), line(BASE, 0.4, data=PUBLISHED, splits=["test_256"])
    ((row,), (other,)) = (comparison_tables([made])[0].rows for made in (whole, partial))
    assert _texts(row)[3:5] == ["40.0 (+2.0)", "40.0 (+11.5)"]  # the paper has 38.0 and 28.5
    assert _texts(other)[3:] == ["40.0 (1/8)", "40.0 (1/8)", "-", "-", "-", "-", "-"]
