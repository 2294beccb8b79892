"""From scores by query to a row for each candidate."""

import numpy as np
import pytest

from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.summary import by_split, summarise
from tests.comparing.frames import BASE, GOOD, KEY, answers, frame, summary


def test_the_best_is_first_and_a_sure_difference_has_an_interval_below_zero() -> None:
    found = summary({BASE: 8, GOOD: 36})
    assert list(found.index) == [GOOD.id, BASE.id]
    good, base = found.loc[GOOD.id], found.loc[BASE.id]
    assert good["score"] == pytest.approx(90) and base["to_best"] == pytest.approx(-70)
    assert np.isnan(good["to_best"]) and base["to_best_low"] < -70 < base["to_best_high"] < 0
    assert list(found["standing"]) == ["good enough", "behind"]
    assert list(found["near_share"]) == pytest.approx([1, 0], abs=1e-6)


def test_each_word_follows_from_the_shares_and_the_interval() -> None:
    rng = np.random.default_rng(1)
    pool = [Candidate(f"org/mine+gp@{i + 512}", "org/mine", "strategy") for i in range(5)]
    skill = rng.random(400)
    seen = set()
    for spread in (0.0, 0.01, 0.1):
        scores = {c: {f"q{i}": min(max(x + rng.normal(-spread * k, 0.1), 0), 1) for i, x in enumerate(skill)}
                  for k, c in enumerate(pool)}  # fmt: skip
        found = summarise(frame({c: {KEY: by_query} for c, by_query in scores.items()}), pool, {})
        seen |= set(found["standing"])
        assert list(found["standing"] == "good enough") == list(found["near_share"] >= 0.95)
        assert (found.loc[found["standing"] == "behind", "to_best_high"] < 0).all()
    assert seen == {"good enough", "may be best", "behind"}


def test_equal_scores_are_called_the_same() -> None:
    found = summary({BASE: 20, GOOD: 20})
    assert list(found["standing"]) == ["may be best"] * 2 and found.index[0] == BASE.id
    good = found.loc[GOOD.id]
    assert good["is_same"] and good["to_best"] == 0
    # no interval has width 0: none of the queries differs, but others might
    assert good["to_best_low"] < 0 < good["to_best_high"]
    assert list(summary({BASE: 200, GOOD: 200}, 200)["standing"]) == ["good enough"] * 2


@pytest.mark.parametrize(("n", "second"), [(5, "may be best"), (6, "behind")])
def test_with_fewer_than_six_queries_nobody_is_behind(n, second) -> None:
    found = summary({BASE: 0, GOOD: n}, n)
    assert found.loc[BASE.id, "standing"] == second
    assert found.loc[GOOD.id, "standing"] == ("good enough" if second == "behind" else "may be best")


def test_queries_about_few_documents_show_nothing_however_many_they_are() -> None:
    scores = frame({BASE: {KEY: answers(0, 60)}, GOOD: {KEY: answers(60, 60)}})
    scores["clusters"] = [[f"d{int(query[1:]) // 12}"] for query in scores["query"]]
    found = summarise(scores, [BASE, GOOD], {})
    assert set(found["standing"]) == {"may be best"} and found.loc[BASE.id, "to_best_high"] >= 0


def test_tasks_weigh_the_same_however_many_splits_they_have() -> None:
    scores = frame(
        {BASE: {("A", "test_1"): answers(40), ("A", "test_2"): answers(40), ("B", "test"): answers(0)}}
    )
    assert summarise(scores, [BASE], {})["score"].tolist() == [pytest.approx(50)]
    assert by_split(scores)["score"].tolist() == [pytest.approx(100), pytest.approx(100), 0]


def test_other_metrics_are_in_percent() -> None:
    scores = frame({BASE: {KEY: answers(20)}, GOOD: {KEY: answers(30)}})
    scores["RR@5"] = scores["score"] / 2
    found = summarise(scores, [BASE, GOOD], {})
    assert found.loc[GOOD.id, "RR@5"] == pytest.approx(37.5) and found.loc[GOOD.id, "RR@5 low"] < 37.5
