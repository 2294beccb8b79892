from mteb_longembed.reports.tables.paper_tables import comparison_tables, matches
from tests.reports.made import BASE, PUBLISHED, ROTARY, line


def _row(table, label):
    (match,) = (row for row in table.rows if row[1].text == label)
    return match


def test_the_same_base_strategy_and_length_are_matched():
    for name in (f"{ROTARY}+se@4096", f"{ROTARY}+se@4096:logn=off"):
        assert [theirs.origin for theirs in matches(line(name, 0.5))] == ["paper", "authors"]
    assert matches(line(f"{ROTARY}+se@2048", 0.5)) == []
    assert matches(line(f"{BASE}+none@512", 0.5)) != []
    assert matches(line(f"{ROTARY}+none@4096", 0.5)) == []
    assert matches(line("somebody/else", 0.5)) == []


def test_a_partial_score_has_no_difference():
    table = comparison_tables([line(BASE, 0.4, data=PUBLISHED, only=["Passkey"], splits=["test_256"])])[0]
    assert [cell.text for cell in _row(table, "ours - paper")[2:]] == ["-"] * 7
