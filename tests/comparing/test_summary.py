"""From scores by query to a row for each candidate."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import by_split, frame_of, queries_to_separate, summarise
from mteb_longembed.evaluation.resampling import Interval
from tests.comparing.frames import BASE, GOOD, KEY, OTHER, answers, fake, frame, row_of, summary


def test_the_best_is_first_and_a_sure_difference_has_an_interval_below_zero() -> None:
    good, base = summary({BASE: 8, GOOD: 36})
    assert (good.id, base.id) == (GOOD.id, BASE.id)
    assert good.score.mean == pytest.approx(90) and base.to_best.mean == pytest.approx(-70)
    assert math.isnan(good.to_best.mean) and base.to_best.low < -70 < base.to_best.high < 0
    assert (good.standing, base.standing) == ("best", "behind")
    assert (good.near_share, base.near_share) == pytest.approx((1, 0), abs=1e-6) and good.is_good_enough


def test_no_standing_contradicts_the_interval_of_its_row() -> None:
    rng = np.random.default_rng(1)
    pool = [fake(f"org/mine+gp@{i + 512}", "strategy") for i in range(5)]
    skill = rng.random(400)
    seen = set()
    for spread in (0.0, 0.01, 0.1):
        scores = {c: {f"q{i}": min(max(x + rng.normal(-spread * k, 0.1), 0), 1) for i, x in enumerate(skill)}
                  for k, c in enumerate(pool)}  # fmt: skip
        first, *others = summarise(frame({c: {KEY: by_query} for c, by_query in scores.items()}), pool)
        assert first.standing == "best"
        for row in others:
            assert (row.standing == "behind") == (row.to_best.high < 0)
        seen |= {row.standing for row in others}
    assert seen == {"not separated", "behind"}


def test_equal_scores_are_called_the_same() -> None:
    base, good = summary({BASE: 20, GOOD: 20})
    assert (base.id, base.standing, good.standing) == (BASE.id, "best", "not separated")
    assert good.is_same and good.to_best.mean == 0
    # no interval has width 0: none of the queries differs, but others might
    assert good.to_best.low < 0 < good.to_best.high
    assert all(row.is_good_enough for row in summary({BASE: 200, GOOD: 200}, 200))


@pytest.mark.parametrize(("n", "second"), [(5, "not separated"), (6, "behind")])
def test_with_fewer_than_six_queries_no_candidate_is_behind(n, second) -> None:
    found = summary({BASE: 0, GOOD: n}, n)
    assert row_of(found, BASE).standing == second


def test_queries_about_few_documents_show_nothing_however_many_they_are() -> None:
    scores = frame({BASE: {KEY: answers(0, 60)}, GOOD: {KEY: answers(60, 60)}})
    scores["clusters"] = [[f"d{int(query[1:]) // 12}"] for query in scores["query"]]
    found = row_of(summarise(scores, [BASE, GOOD]), BASE)
    assert found.standing == "not separated" and found.to_best.high >= 0


def test_tasks_weigh_the_same_however_many_splits_they_have() -> None:
    scores = frame(
        {BASE: {("A", "test_1"): answers(40), ("A", "test_2"): answers(40), ("B", "test"): answers(0)}}
    )
    assert summarise(scores, [BASE])[0].score.mean == pytest.approx(50)
    assert by_split(scores)["score"].tolist() == [pytest.approx(100), pytest.approx(100), 0]


def test_candidates_are_compared_on_the_queries_that_all_have_answered() -> None:
    scores = frame({GOOD: {KEY: answers(30)}, BASE: {KEY: answers(20)}})
    unanswered = (scores["candidate"] == BASE.id) & (scores["query"] == "q0")
    good, base = summarise(scores[~unanswered], [GOOD, BASE])
    assert good.score.mean == pytest.approx(100 * 29 / 39)
    assert base.score.mean == pytest.approx(100 * 19 / 39)


def test_other_metrics_are_in_percent_and_a_table_has_a_column_for_everything() -> None:
    scores = frame({BASE: {KEY: answers(20)}, GOOD: {KEY: answers(30)}})
    scores["RR@5"] = scores["score"] / 2
    rows = summarise(scores, [BASE, GOOD])
    interval = row_of(rows, GOOD).metrics["RR@5"]
    assert interval.mean == pytest.approx(37.5) and interval.low < 37.5
    table = frame_of(rows)
    assert table.loc[GOOD.id, "RR@5_low"] == interval.low and table.loc[GOOD.id, "score"] == pytest.approx(75)
    assert {field.name for field in fields(Cost)} <= set(table.columns)


@pytest.mark.parametrize(
    ("right", "n", "expected"), [((30, 27), 40, True), ((36, 8), 40, False), ((9, 9), 40, False)]
)
def test_more_queries_are_requested_only_where_they_would_separate_the_first_two(right, n, expected) -> None:
    rows = summary({GOOD: right[0], BASE: right[1]}, n)
    more = queries_to_separate(rows, n)
    assert (more is not None) == expected
    if more is not None:
        # the interval shrinks with the root of the number of queries
        half = (rows[1].to_best.high - rows[1].to_best.mean) * math.sqrt(n / (n + more))
        assert half == pytest.approx(-rows[1].to_best.mean, rel=0.05)


@pytest.mark.parametrize(
    ("low", "mean", "high", "more"),
    [(-6, -2, 2, 120), (-3, -2, -1, 1), (-2, -1, 0, 1), (-1, 0, 1, None), (math.nan, -1, math.nan, None)],
)
def test_an_interval_that_is_to_be_half_as_wide_needs_four_times_as_many_queries(
    low, mean, high, more
) -> None:
    first, second = summary({GOOD: 30, BASE: 27})
    rows = [first, replace(second, to_best=Interval(mean, low, high))]
    assert queries_to_separate(rows, 40) == more
    assert queries_to_separate([first], 40) is None


def test_a_row_is_near_within_two_points_in_95_percent_of_the_resamples() -> None:
    by_query = {f"q{i}": 0.5 for i in range(300)}
    for less, is_near in ((0.0199, True), (0.0201, False)):
        scores = frame({GOOD: {KEY: by_query}, BASE: {KEY: {q: x - less for q, x in by_query.items()}}})
        row = row_of(summarise(scores, [GOOD, BASE]), BASE)
        assert (row.near_share > 0.5) == is_near
        assert [replace(row, near_share=x).is_good_enough for x in (0.9499, 0.95)] == [False, True]


def test_five_of_eight_clusters_show_no_difference_however_large_it_is() -> None:
    found = row_of(summary({BASE: 3, GOOD: 8}, 8), BASE)
    assert found.to_best.high == 0 and found.standing == "not separated"


def test_what_scores_every_query_as_the_best_does_is_the_same_and_others_are_not() -> None:
    found = summary({GOOD: 20, OTHER: 20, BASE: 10})
    assert [row.is_same for row in found] == [False, True, False]
    assert [row.is_same for row in summary({GOOD: 20, BASE: 10})] == [False, False]


def test_metrics_and_splits_keep_their_order() -> None:
    scores = frame({BASE: {("Z", "test"): answers(20), ("A", "test"): answers(10)}})
    scores["RR@5"] = scores["AP@5"] = scores["score"]
    assert list(summarise(scores, [BASE])[0].metrics) == ["RR@5", "AP@5"]
    assert by_split(scores)["task"].tolist() == ["Z", "A"]
