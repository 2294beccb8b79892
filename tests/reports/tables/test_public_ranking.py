from mteb_longembed.reports.scores.public_results import public_results
from mteb_longembed.reports.tables.public_ranking import n_mismatches, public_table
from tests.reports.made import BASE, GENERATED, PUBLISHED, lines

HEADER = public_table(public_results(), []).header


def _rows(measured=()):
    table = public_table(public_results(), measured)
    return [dict(zip(HEADER, (cell.text for cell in row), strict=True)) for row in table.rows]


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
    assert origins.count("paper") > 10 and origins.count("authors") > 10


def test_generated_data_carries_a_dagger_and_no_window():
    rows = _rows(lines({f"{BASE}+pi@4096": 0.5}, data=GENERATED))
    (ours,) = (row for row in rows if row["Numbers"] == "ours")
    assert (ours["Passkey"], ours["QMSum"], ours["Average"]) == ("50.0†", "50.0", "50.0†")
    assert ours["As evaluated"] == "-"


def test_a_mismatch_is_marked_and_called_derived():
    table = public_table(public_results(), [])
    marked = [row[1].text for row in table.rows if "‡" in row[5].text]
    assert len(marked) == n_mismatches(public_results()) == 29
    assert {"Alibaba-NLP/gte-Qwen2-7B-instruct", "GritLM/GritLM-7B"} <= set(marked)
    assert {"NovaSearch/stella_en_1.5B_v5", "google/gemini-embedding-001"} <= set(marked)
    assert any(name.startswith("jinaai/jina-embeddings-v3") for name in marked)
    assert any("how the model was run is not known" in note for note in table.notes)
