from mteb_longembed.reports.overview import overview
from mteb_longembed.reports.scores.results import load_results
from mteb_longembed.reports.scores.scoreboard import score_lines
from tests.reports.made import BASE, rows, write_result


def _head(results, **kwargs):
    return overview(results, score_lines(results), written="2026-01-02", **kwargs)


def test_it_says_what_was_run_when_and_with_which_versions(tmp_path):
    write_result(tmp_path, "LongEmbedQMSum", {"test": 0.2}, date="2026-01-01T10:00:00", mteb_version="2.26.0")
    write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.2}, date="2025-12-31T10:00:00")
    facts = dict(_head(load_results([tmp_path])[0]).facts)
    assert facts["Written"] == "2026-01-02"
    assert facts["Run"] == "2025-12-31 to 2026-01-01"
    assert facts["mteb"] == "2.26.0, 2.26.24"
    assert facts["Tasks"] == "2: LongEmbedPasskey, LongEmbedQMSum"
    assert facts["Models"] == f"1: {BASE}"


def test_files_without_a_date_say_so():
    assert dict(_head(rows(BASE, 0.5)).facts)["Run"] == "the result files have no date"


def test_the_best_extension_is_named_with_what_is_known_of_it():
    results = rows(f"{BASE}+none@512", 0.3) + rows(f"{BASE}+pi@4096", 0.5) + rows(f"{BASE}+rp@4096", 0.4)
    told = " ".join(_head(results).conclusions)
    assert "has the highest average of 3 complete models: 50.0, 10.0 points before" in told
    assert "of 2 extensions, +pi@4096 has the best Average, +20.0 points over the base; without" in told


def test_intervals_that_overlap_are_not_called_a_gain():
    def sentence(value):
        results = rows(f"{BASE}+none@512", 0.3, only=["Passkey"])
        return " ".join(_head(results + rows(f"{BASE}+pi@4096", value, only=["Passkey"])).conclusions)

    assert "the 95 % intervals overlap: mteb-longembed compare tests it" in sentence(0.32)
    assert "the 95 % intervals do not overlap" in sentence(0.5)


def test_no_whole_score_concludes_nothing():
    assert _head([]).conclusions == ("There are too few whole scores to conclude anything.",)
