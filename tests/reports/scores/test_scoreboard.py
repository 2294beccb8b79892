import math
from dataclasses import replace

import numpy as np
import pytest

from mteb_longembed.reports.scores.published_numbers import COLUMNS
from mteb_longembed.reports.scores.scoreboard import score_lines
from mteb_longembed.statistics.bootstrap import mean_interval
from tests.reports.made import BASE, GENERATED, PUBLISHED, line, rows

REAL = {task for column in COLUMNS if not column.is_by_length for task in column.tasks.values()}


def test_the_average_is_the_mean_of_six_columns_and_passkey_of_eight_lengths():
    results = rows(BASE, 0.5)
    # One length of eight at 1.0: Passkey = (7 * 50 + 100) / 8 = 56.25; the average gains a sixth of 6.25.
    first = ("LongEmbedPasskey", "test_256")
    changed = [replace(row, score=1.0) if (row.task, row.split) == first else row for row in results]
    (only,) = score_lines(changed)
    assert only.scores["Passkey"].mean.mean == pytest.approx(56.25)
    assert only.average.mean.mean == pytest.approx(50 + 6.25 / 6)


def test_one_missing_length_leaves_no_average():
    results = [row for row in rows(BASE, 0.5) if row.split != "test_32768"]
    (only,) = score_lines(results)
    assert (only.scores["Passkey"].n_done, only.scores["Passkey"].n_all) == (7, 8)
    assert only.scores["Passkey"].complete is None
    assert only.average.mean is None
    assert (only.average.n_done, only.average.n_all) == (4, 6)


def test_longer_lengths_than_the_papers_are_kept_but_not_averaged():
    extra = replace(rows(BASE, 0.5, only=["Passkey"])[0], split="test_65536", score=0.0)
    (only,) = score_lines([*rows(BASE, 0.5, only=["Passkey"]), extra])
    assert only.scores["Passkey"].mean.mean == pytest.approx(50)
    assert only.by_length["Passkey"][65536] == 0


def test_generated_and_published_passkey_never_share_a_line():
    results = rows(BASE, 0.5) + rows(BASE, 0.1, data=PUBLISHED, only=["Passkey", "Needle"])
    generated, published = score_lines(results)
    assert (generated.data, published.data) == (GENERATED, PUBLISHED)
    assert generated.average.mean.mean == pytest.approx(50)
    # The real tasks are the same data under both names.
    assert published.average.mean.mean == pytest.approx((2 * 10 + 4 * 50) / 6)


def test_generated_passkey_does_not_complete_a_published_line():
    others = {column.key for column in COLUMNS} - {"Passkey"}
    results = rows(BASE, 0.5, only=["Passkey"]) + rows(BASE, 0.5, data=PUBLISHED, only=others)
    generated, published = score_lines(results)
    assert (generated.average.n_done, published.average.n_done) == (5, 5)
    assert generated.average.mean is None
    assert published.average.mean is None


def test_a_model_with_real_tasks_only_stays_with_the_names_it_ran():
    assert line(BASE, 0.5, only=["QMSum"]).data == GENERATED
    assert line(BASE, 0.5, only=["QMSum"], data=PUBLISHED).data == PUBLISHED


def test_another_revision_of_generated_data_gets_lines_of_its_own():
    results = rows("a/b", 0.5) + rows("a/c", 0.5) + rows("a/d", 0.5, dataset_revision="other-seed")
    kinds = {line.model.name.full: line.data for line in score_lines(results)}
    assert kinds["a/b"] == kinds["a/c"] == GENERATED
    assert kinds["a/d"] != GENERATED
    assert "other-seed" in kinds["a/d"]


def test_single_queries_give_ndcg_its_bootstrap_interval_and_the_average_one_too():
    made = rows("a/b", 0.5)
    scores = tuple(i / 40 for i in range(41))  # mean 0.5
    real = [replace(row, queries=scores if row.task in REAL else ()) for row in made]
    (without,), (with_queries,) = score_lines(made), score_lines(real)
    assert not without.scores["QMSum"].mean.is_known and not without.average.mean.is_known
    expected = mean_interval(scores)
    score = with_queries.scores["QMSum"].mean
    assert (score.low, score.high) == (pytest.approx(100 * expected.low), pytest.approx(100 * expected.high))
    # By hand, for normal means: the variance of the mean of six, Passkey and Needle with 400 right or wrong answers.
    variance = (2 * 0.25 / 400 + 4 * np.var(scores) / 41) / 36
    half_width = 100 * 1.96 * math.sqrt(variance)
    assert with_queries.average.mean.low == pytest.approx(50 - half_width, abs=0.1 * half_width)
