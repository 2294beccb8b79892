import math
from dataclasses import replace

import pytest

from mteb_longembed.reports.scores.columns import COLUMNS
from mteb_longembed.reports.scores.scoreboard import score_lines
from tests.reports.made import BASE, GENERATED, PUBLISHED, line, rows


def test_the_average_is_the_mean_of_six_columns_and_passkey_of_eight_lengths():
    results = rows(BASE, 0.5)
    # One length of eight at 1.0: Passkey = (7 * 50 + 100) / 8 = 56.25; the average gains a sixth of 6.25.
    first = ("LongEmbedPasskey", "test_256")
    changed = [replace(row, score=1.0) if (row.task, row.split) == first else row for row in results]
    (only,) = score_lines(changed)
    assert only.scores["Passkey"].mean.mean == pytest.approx(56.25)
    assert only.scores["Average"].mean.mean == pytest.approx(50 + 6.25 / 6)


def test_one_missing_length_leaves_no_average():
    results = [row for row in rows(BASE, 0.5) if row.split != "test_32768"]
    (only,) = score_lines(results)
    assert (only.scores["Passkey"].n_done, only.scores["Passkey"].n_all) == (7, 8)
    assert only.scores["Passkey"].complete is None
    assert only.scores["Average"].mean is None
    assert (only.scores["Average"].n_done, only.scores["Average"].n_all) == (4, 6)


def test_longer_lengths_than_the_papers_are_kept_but_not_averaged():
    extra = replace(rows(BASE, 0.5, only=["Passkey"])[0], split="test_65536", score=0.0)
    (only,) = score_lines([*rows(BASE, 0.5, only=["Passkey"]), extra])
    assert only.scores["Passkey"].mean.mean == pytest.approx(50)
    assert only.by_length["Passkey"][65536].mean == 0


def test_generated_and_published_passkey_never_share_a_line():
    results = rows(BASE, 0.5) + rows(BASE, 0.1, data=PUBLISHED, only=["Passkey", "Needle"])
    generated, published = score_lines(results)
    assert (generated.data, published.data) == (GENERATED, PUBLISHED)
    assert generated.scores["Average"].mean.mean == pytest.approx(50)
    # The real tasks are the same data under both names.
    assert published.scores["Average"].mean.mean == pytest.approx((2 * 10 + 4 * 50) / 6)


def test_generated_passkey_does_not_complete_a_published_line():
    others = {column.key for column in COLUMNS} - {"Passkey"}
    results = rows(BASE, 0.5, only=["Passkey"]) + rows(BASE, 0.5, data=PUBLISHED, only=others)
    generated, published = score_lines(results)
    assert (generated.scores["Average"].n_done, published.scores["Average"].n_done) == (5, 5)
    assert generated.scores["Average"].mean is None
    assert published.scores["Average"].mean is None


def test_generated_passkey_and_real_tasks_under_their_published_names_are_one_whole_line():
    by_length, real = ("Passkey", "Needle"), {column.key for column in COLUMNS} - {"Passkey", "Needle"}
    (only,) = score_lines(rows(BASE, 0.5, only=by_length) + rows(BASE, 0.5, data=PUBLISHED, only=real))
    assert only.data == GENERATED and only.scores["Average"].complete.mean == pytest.approx(50)


def test_a_model_with_real_tasks_only_stays_with_the_names_it_ran():
    assert line(BASE, 0.5, only=["QMSum"]).data == GENERATED
    assert line(BASE, 0.5, only=["QMSum"], data=PUBLISHED).data == PUBLISHED


def test_passkey_has_the_interval_of_its_400_answers_and_an_ndcg_has_none():
    (only,) = score_lines(rows(BASE, 0.5))
    passkey = only.scores["Passkey"].mean
    half_width = 100 * 1.96 * math.sqrt(0.25 / 400)  # of a normal mean, by hand
    assert passkey.low == pytest.approx(50 - half_width, abs=0.1 * half_width)
    assert passkey.high == pytest.approx(50 + half_width, abs=0.1 * half_width)
    assert not only.scores["QMSum"].mean.is_known and not only.scores["Average"].mean.is_known


def test_labels_carry_a_revision_only_where_a_name_has_several():
    commit = "11111111" + 32 * "f"
    named = (("a/b", f"{commit}-le1"), ("a/b", f"{commit}-le2"), ("a/b", "mine"), ("a/c", "r"))
    made = score_lines([row for name, revision in named for row in rows(name, 0.5, revision=revision)])
    assert [line.label for line in made] == ["a/b (11111111-le1)", "a/b (11111111-le2)", "a/b (mine)", "a/c"]
