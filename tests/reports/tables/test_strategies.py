from __future__ import annotations

from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.reports.tables.scores import strategy_tables
from tests.reports.made import BASE, lines, rows


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
