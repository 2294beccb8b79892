from mteb_longembed.reports.overview import overview
from mteb_longembed.reports.scores.results import load_results
from tests.reports.made import BASE, rows, write_result


def test_it_says_what_was_run_when_and_with_which_versions(tmp_path):
    write_result(tmp_path, "LongEmbedQMSum", {"test": 0.2}, date="2026-01-01T10:00:00", mteb_version="2.26.0")
    write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.2}, date="2025-12-31T10:00:00")
    facts = dict(overview(load_results([tmp_path])[0])[0])
    assert facts["Run"] == "2025-12-31 to 2026-01-01"
    assert facts["mteb"] == "2.26.0, 2.26.24"
    assert facts["Tasks"] == "2: LongEmbedPasskey, LongEmbedQMSum"
    assert facts["Models"] == f"1: {BASE}"


def test_files_without_a_date_say_so():
    assert dict(overview(rows(BASE, 0.5))[0])["Run"] == "the result files have no date"
