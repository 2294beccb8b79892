from __future__ import annotations

from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.tables.scores import OTHER_DATA, comparison_tables, matches
from tests.reports.made import BASE, PUBLISHED, ROTARY, line, lines


def _row(table, label):
    (found,) = (row for row in table.rows if row[1].text == label)
    return found


def test_the_same_base_strategy_and_length_are_matched():
    assert [theirs.origin for theirs in matches(line(f"{ROTARY}+se@4096", 0.5))] == ["paper", "authors"]
    assert [theirs.origin for theirs in matches(line(f"{ROTARY}+se@4096:logn=off", 0.5))] == [
        "paper",
        "authors",
    ]
    assert matches(line(f"{ROTARY}+se@2048", 0.5)) == []
    assert matches(line(f"{BASE}+none@512", 0.5)) != []
    assert matches(line(f"{ROTARY}+none@4096", 0.5)) == []
    assert matches(line("somebody/else", 0.5)) == []


def test_differences_on_published_data_carry_no_mark():
    table = comparison_tables(lines({BASE: 0.4}, data=PUBLISHED))[0]
    # The paper's E5: Passkey 38.0, average 41.0.
    difference = _row(table, "ours - paper")
    assert (difference[2].text, difference[-1].text) == ("+2.0", "-1.0")
    assert not any(OTHER_DATA in cell.text for row in table.rows for cell in row)


def test_differences_over_generated_data_are_marked_and_those_of_the_real_tasks_are_not():
    table = comparison_tables(lines({f"{BASE}+none@512": 0.4}))[0]
    marked = [OTHER_DATA in cell.text for cell in _row(table, "ours - paper")[2:]]
    assert marked == [column.is_by_length for column in COLUMNS] + [True]
    assert "not the same data" in " ".join(table.notes)


def test_a_partial_score_has_no_difference():
    table = comparison_tables([line(BASE, 0.4, data=PUBLISHED, only=["Passkey"], splits=["test_256"])])[0]
    assert [cell.text for cell in _row(table, "ours - paper")[2:]] == ["-"] * 7


def test_lengths_stand_beside_the_authors():
    tables = {table.key: table for table in comparison_tables(lines({BASE: 0.5}, data=PUBLISHED))}
    difference = _row(tables["compared-passkey-published"], "ours - authors")
    # The authors' E5 on Passkey: 100 at 256 tokens, 96 at 512.
    assert [cell.text for cell in difference[2:4]] == ["-50.0", "-46.0"]
