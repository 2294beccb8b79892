from __future__ import annotations

import numpy as np
import pytest

from mteb_longembed.errors import DataError, UnknownNameError
from mteb_longembed.reports.scores.predictions import load_predictions
from mteb_longembed.reports.scores.results import load_results
from mteb_longembed.reports.scores.significance import compare, compare_models, significance_table


def _scores(values):
    return {f"q{i}": float(value) for i, value in enumerate(values)}


def test_the_same_scores_are_no_difference():
    same = _scores([0, 1, 1, 0])
    found = compare("t", "s", [same], [same])
    assert (found.low, found.p_value) == (-found.high, 1) and found.low < 0


def test_the_p_value_is_that_of_all_sign_flips():
    # Ten queries, all won by one: 2 of the 2 ** 10 sign patterns are as extreme.
    found = compare("t", "s", [_scores([0] * 10)], [_scores([1] * 10)])
    assert found.p_value == pytest.approx(2 / 1024)
    assert (found.first, found.second) == (0, 100)


def test_two_points_on_fifty_queries_are_noise():
    first = _scores([1] * 25 + [0] * 25)
    second = _scores([1] * 23 + [0] * 2 + [1] * 3 + [0] * 22)
    found = compare("t", "s", [first], [second])
    assert found.second - found.first == pytest.approx(2)
    assert found.low < 0 < found.high
    assert found.p_value > 0.5


def test_a_large_difference_is_real_and_its_interval_excludes_zero():
    found = compare("t", "s", [_scores([0] * 40 + [1] * 10)], [_scores([0] * 20 + [1] * 30)])
    assert found.low > 0
    assert found.p_value < 0.001


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(1)
    n_covered = 0
    for _ in range(40):
        second = rng.normal(0.1, 0.3, size=50)
        found = compare("t", "s", [_scores(np.zeros(50))], [_scores(second)])
        n_covered += found.low <= 10 <= found.high
    # Binomial(40, 0.95): below 33 once in ten thousand.
    assert n_covered >= 33


def test_every_length_weighs_the_same_whatever_its_number_of_queries():
    zero, one = [_scores([0] * 10), _scores([0] * 30)], [_scores([1] * 10), _scores([0] * 30)]
    found = compare("t", "mean", zero, one)
    assert (found.first, found.second, found.n_queries) == (0, 50, 40)


def test_the_answer_is_the_same_every_time():
    rng = np.random.default_rng(0)
    first, second = _scores(rng.random(50)), _scores(rng.random(50))
    assert compare("t", "s", [first], [second]) == compare("t", "s", [first], [second])


def test_other_queries_are_an_error():
    with pytest.raises(DataError, match="got 2 and 3 queries, 2 of them shared"):
        compare("t", "s", [_scores([1, 1])], [_scores([1, 1, 1])])


def test_two_models_of_a_real_run(toy_run, toy_task):
    predictions, _ = load_predictions([toy_run.good, toy_run.poor])
    results = load_results([toy_run.results]).rows
    models = ("toy/poor", "toy/good+pi@512")
    found = compare_models(predictions, results, models)
    # Two of the eight lengths: no mean, which would be taken for the whole.
    assert [c.split for c in found] == ["test_256", "test_512"]
    assert found[0].second - found[0].first == pytest.approx(50)
    table = significance_table(found, models)
    assert table.rows[0][5].text == "+50.0"
    assert all(row[8].number >= row[7].number for row in table.rows)


def test_a_model_without_predictions_is_named(toy_run):
    predictions, _ = load_predictions([toy_run.good])
    with pytest.raises(UnknownNameError, match="unknown model with predictions 'a/b'"):
        compare_models(predictions, [], ("toy/good+pi@512", "a/b"))
