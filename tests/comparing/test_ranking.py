from __future__ import annotations

import pytest

from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import rank

BASE = Candidate("mine+none@512", "mine", is_base=True)
GOOD = Candidate("mine+ntk@4096", "mine")
SAME = Candidate("mine+gp@4096", "mine")
COST = Cost(1000.0, 1.0, 3072.0, 1.0)


def answers(right: int, n: int = 40) -> dict[str, float]:
    return {f"q{i}": float(i < right) for i in range(n)}


def test_the_best_is_first_and_a_sure_gain_has_an_interval_above_zero() -> None:
    key = ("Task", "test")
    rows = rank({BASE: {key: answers(8)}, GOOD: {key: answers(36)}}, dict.fromkeys((BASE, GOOD), COST))
    assert [row.candidate for row in rows] == [GOOD, BASE]
    assert rows[0].score.mean == pytest.approx(90) and rows[0].gain is not None
    assert rows[0].gain.mean == pytest.approx(70) and rows[0].gain.low > 0 and rows[0].p_value < 0.01
    assert rows[0].loss is None and rows[1].loss is not None and rows[1].loss.high < 0
    assert rows[1].gain is None and rows[1].p_value is None


def test_a_tie_has_no_gain() -> None:
    key = ("Task", "test")
    rows = rank({BASE: {key: answers(20)}, SAME: {key: answers(20)}}, dict.fromkeys((BASE, SAME), COST))
    same = next(row for row in rows if row.candidate is SAME)
    assert same.gain is not None and (same.gain.mean, same.p_value) == (0, 1.0)
    # No interval has width 0: none of the queries differs, but others might.
    assert same.gain.low == -same.gain.high < 0


def test_tasks_weigh_the_same_however_many_splits_they_have() -> None:
    scores = {("A", "test_1"): answers(40), ("A", "test_2"): answers(40), ("B", "test"): answers(0)}
    (row,) = rank({BASE: scores}, {BASE: COST})
    assert row.score.mean == pytest.approx(50)
    assert row.by_split["A", "test_1"].mean == pytest.approx(100)
