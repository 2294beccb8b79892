"""What the figures show, not how they look."""

import pytest

from mteb_longembed.reports.figures.strategies import draw, improvement, targets
from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.scores.scoreboard import score_lines
from tests.reports.made import BASE, lines, rows


def _group(scored):
    (group,) = group_by_base(scored)
    return group


def test_improvement_takes_the_longest_target_of_each_variant():
    scores = {"none@512": 0.3, "pi@1024": 0.4, "pi@4096": 0.5, "pcw@4096": 0.2}
    bars = improvement(_group(lines({f"{BASE}+{name}": score for name, score in scores.items()})))
    assert list(bars) == ["+pcw@4096", "+pi@4096"]
    assert bars["+pi@4096"]["Average"].mean == pytest.approx(20)
    # Two accuracies of 400 queries, 30 and 50 %: the ends of their difference lie about 6.6 points away.
    passkey = bars["+pi@4096"]["Passkey"]
    assert (passkey.low, passkey.high) == (pytest.approx(13.35, abs=0.3), pytest.approx(26.65, abs=0.3))


def test_improvement_leaves_out_what_is_partial():
    results = rows(f"{BASE}+none@512", 0.3) + rows(f"{BASE}+pi@4096", 0.5, only=["QMSum"])
    bars = improvement(_group(score_lines(results)))
    assert set(bars["+pi@4096"]) == {"QMSum"}


def test_target_lengths_need_two_and_start_from_the_base():
    scores = {f"{BASE}+none@512": 0.3, f"{BASE}+pi@1024": 0.4, f"{BASE}+pi@4096": 0.5}
    curves = targets(_group(lines(scores)))
    means = {name: {n: score.mean for n, score in curve.items()} for name, curve in curves.items()}
    assert means == {"+pi": pytest.approx({512: 30, 1024: 40, 4096: 50})}
    del scores[f"{BASE}+pi@1024"]
    assert targets(_group(lines(scores))) == {}


def test_bars_leave_out_tasks_that_were_not_measured():
    scored = lines({f"{BASE}+none@512": 0.3, f"{BASE}+pi@4096": 0.4}, only=["QMSum", "Passkey"])
    (drawing,) = draw(_group(scored))
    (axes,) = drawing.figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Passkey", "QMSum"]
