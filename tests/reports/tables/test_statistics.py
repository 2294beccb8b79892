from __future__ import annotations

from mteb_longembed.reports.tables.scores import statistics_table


def test_the_published_counts_of_every_task_and_length():
    table = statistics_table()
    by_task = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert by_task["LEMBNarrativeQARetrieval"][2:] == ["10,449", "355", "9.0", "50,474", "326,753"]
    assert [row[0].text for row in table.rows].count("LEMBPasskeyRetrieval") == 8
