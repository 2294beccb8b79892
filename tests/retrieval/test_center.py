"""Centring against hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import InputError


def test_the_mean_is_subtracted_and_lengths_are_1_again():
    rows = np.random.default_rng(0).normal(3, 1, (7, 5)).astype(np.float32)
    got, mean = longembed.center(rows)
    assert np.allclose(mean, [sum(column) / 7 for column in rows.T], atol=1e-6)
    for row, centred in zip(rows, got, strict=True):
        left = row - mean
        assert np.allclose(centred, left / np.sqrt((left**2).sum()), atol=1e-5)


def test_a_vector_alone_or_equal_to_the_mean_stays_as_it_is():
    alone = np.array([[0.6, 0.8]])
    assert np.array_equal(longembed.center(alone)[0], alone.astype(np.float32))
    got, _ = longembed.center([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert np.array_equal(got[2], [0.5, 0.5])
    assert longembed.center(np.zeros((0, 3)))[0].shape == (0, 3)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], [[1.0, float("nan")]]])
def test_what_is_no_matrix_of_numbers_is_refused(wrong):
    with pytest.raises(InputError, match=r"^vectors must be a matrix of finite numbers"):
        longembed.center(wrong)
