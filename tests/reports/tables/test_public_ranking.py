from __future__ import annotations

from mteb_longembed.reports.scores.public_results import public_results
from mteb_longembed.reports.tables.public_ranking import n_mismatches, public_table
from tests.reports.made import BASE, GENERATED, PUBLISHED, lines

HEADER = public_table(public_results(), []).header


def _rows(found=(), **chosen):
    table = public_table(public_results(), found, **chosen)
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
    (ours,) = (
        row for row in _rows(lines({f"{BASE}+pi@4096": 0.5}, data=GENERATED)) if row["Numbers"] == "ours"
    )
    assert (ours["Passkey"], ours["QMSum"], ours["Average"]) == ("50.0†", "50.0", "50.0†")
    assert ours["As evaluated"] == "-"


def test_a_mismatch_is_marked_and_called_derived():
    table = public_table(public_results(), [], evaluated="mismatch")
    assert len(table.rows) == n_mismatches(public_results()) == 29
    names = {row[1].text for row in table.rows}
    assert {"Alibaba-NLP/gte-Qwen2-7B-instruct", "GritLM/GritLM-7B", "Salesforce/SFR-Embedding-2_R"} <= names
    assert {"NovaSearch/stella_en_1.5B_v5", "google/gemini-embedding-001"} <= names
    assert any(name.startswith("jinaai/jina-embeddings-v3") for name in names)
    assert any("how the model was run is not known" in note for note in table.notes)


def test_filters_keep_what_lies_within_and_the_rank_of_all():
    rows = _rows(parameters=(1e9, 1e10), advertised=(32768, 40960), evaluated="8192")
    assert rows[0]["Model"] == "codefuse-ai/F2LLM-v2-8B"
    assert int(rows[0]["#"]) > 1
    assert all(row["Size"].endswith("B") and row["As evaluated"].startswith("near 8,192") for row in rows)
