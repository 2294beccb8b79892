"""What the figures show, not how they look."""

import pytest

from mteb_longembed.reports.figures.bars import improvement, tuning
from mteb_longembed.reports.figures.curves import positions, targets
from mteb_longembed.reports.figures.heat_maps import by_model
from mteb_longembed.reports.scores.published_numbers import published_lines
from mteb_longembed.reports.scores.scoreboard import score_lines
from tests.reports.made import BASE, PUBLISHED, ROTARY, lines, rows

GTE = "thenlper/gte-base"


def test_heat_map_rows_are_sorted_and_marked_by_context():
    maps = by_model(lines({f"{BASE}+none@512": 0.3, f"{BASE}+pi@4096": 0.5}))
    assert [data.key for data in maps] == ["heatmap-passkey-generated", "heatmap-needle-generated"]
    assert maps[0].rows == (f"{BASE}+pi@4096 ♦", f"{BASE}+none@512 ▲")
    assert set(maps[0].values[0]) == {50.0}


def test_the_authors_rows_join_published_data_only():
    generated = by_model(lines({BASE: 0.3}), with_authors=True)[0]
    published = by_model(lines({BASE: 0.3}, data=PUBLISHED), with_authors=True)[0]
    assert len(generated.rows) == 1
    assert len(published.rows) == 1 + 12
    assert sum("(authors)" in label for label in published.rows) == 12


def test_equal_rows_stand_ours_first():
    (theirs,) = (line for line in published_lines() if line.by_length and line.model == "BAAI/bge-m3")
    kind = {"data": PUBLISHED, "only": ["Passkey"]}
    ours = [
        result
        for length, value in theirs.by_length["Passkey"].items()
        for result in rows(theirs.model, value / 100, splits=[f"test_{length}"], **kind)
    ]
    data = by_model(score_lines(ours), with_authors=True)[0]
    assert data.rows.index("BAAI/bge-m3 (authors)") == data.rows.index("BAAI/bge-m3") + 1


def test_improvement_takes_the_longest_target_of_each_variant():
    scores = {"none@512": 0.3, "pi@1024": 0.4, "pi@4096": 0.5, "pcw@4096": 0.2}
    (data,) = improvement(lines({f"{BASE}+{name}": score for name, score in scores.items()}))
    assert [label for label, _ in data.bars] == ["+pcw@4096", "+pi@4096"]
    assert data.bars[1][1]["Average"].mean == pytest.approx(20)
    # Two accuracies of 400 queries, 30 and 50 %: the ends of their difference lie about 6.6 points away.
    passkey = data.bars[1][1]["Passkey"]
    assert (passkey.low, passkey.high) == (pytest.approx(13.35, abs=0.3), pytest.approx(26.65, abs=0.3))


def test_improvement_leaves_out_what_is_partial():
    results = rows(f"{BASE}+none@512", 0.3) + rows(f"{BASE}+pi@4096", 0.5, only=["QMSum"])
    (data,) = improvement(score_lines(results))
    assert set(data.bars[0][1]) == {"QMSum"}


def test_target_lengths_need_two_and_start_from_the_base():
    scores = {f"{BASE}+none@512": 0.3, f"{BASE}+pi@1024": 0.4, f"{BASE}+pi@4096": 0.5, f"{GTE}+pi@4096": 0.5}
    (data,) = targets(lines(scores))
    (series,) = data.panels.values()
    means = {name: {n: score.mean for n, score in curve.items()} for name, curve in series.items()}
    assert means == {"+pi": pytest.approx({512: 30, 1024: 40, 4096: 50})}


def test_tuning_gains_are_after_less_before():
    pairs = [(f"{BASE}+pi@4096", "local/pi+none@4096"), (f"{BASE}+rp@4096", "local/rp+none@4096")]
    scores = {pairs[0][0]: 0.4, pairs[0][1]: 0.5, pairs[1][0]: 0.4, pairs[1][1]: 0.42}
    (data,) = tuning(lines(scores), pairs)
    gains = [(label, round(gain["Average"].mean, 6)) for label, gain in data.bars]
    assert gains == [("+pi tuned", 10), ("+rp tuned", 2)]


def test_positions_take_the_best_strategy_at_each_length():
    scores = {f"{BASE}+pi": 0.4, f"{BASE}+gp": 0.3, f"{ROTARY}+se": 0.6, f"{ROTARY}+ntk": 0.5}
    (data,) = positions(lines({f"{name}@4096": score for name, score in scores.items()}))
    best = {kind: {n: (v.mean, name) for n, (v, name) in curve.items()} for kind, curve in data.best.items()}
    assert best["absolute"] == {4096: (pytest.approx(40), f"{BASE}+pi@4096")}
    assert best["rotary"] == {4096: (pytest.approx(60), f"{ROTARY}+se@4096")}


def test_positions_compare_equal_trained_lengths():
    mistral = "intfloat/e5-mistral-7b-instruct+ntk@32768"
    assert positions(lines({f"{BASE}+pi@4096": 0.4, f"{GTE}+pi@4096": 0.4, mistral: 0.7})) == []
