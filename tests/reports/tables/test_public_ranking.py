from mteb_longembed.reports.tables.public_ranking import public_table
from tests.reports.made import BASE, GENERATED, PUBLISHED, lines


def _rows(measured=()):
    table = public_table(measured)
    return [dict(zip(table.header, (cell.text for cell in row), strict=True)) for row in table.rows]


def test_ranks_go_by_the_average_and_incomplete_rows_have_none():
    rows = _rows()
    ranked = [row for row in rows if row["#"] != "-"]
    assert [int(row["#"]) for row in ranked] == list(range(1, len(ranked) + 1))
    averages = [float(row["Average"]) for row in ranked]
    assert averages == sorted(averages, reverse=True)
    assert rows[len(ranked) :] and all("/6)" in row["Average"] for row in rows[len(ranked) :])


def test_public_ours_and_the_papers_rows_stand_in_one_table():
    origins = [row["Numbers"] for row in _rows(lines({f"{BASE}+pi@4096": 0.5}, data=PUBLISHED))]
    assert origins.count("public") == 205
    assert origins.count("ours") == 1
    assert origins.count("paper") > 10


def test_generated_data_are_named():
    rows = _rows(lines({f"{BASE}+pi@4096": 0.5}, data=GENERATED))
    (ours,) = (row for row in rows if row["Numbers"] == "ours, generated data")
    assert (ours["Passkey"], ours["QMSum"], ours["Average"]) == ("50.0", "50.0", "50.0")
