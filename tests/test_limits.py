"""The limits of other tests: another order of summation stays inside, a position off by one does not."""

import numpy as np
import pytest
import torch

from tests.limits import limit, same_vectors


@pytest.mark.parametrize("terms", [2, 30, 1000, 30_000])
def test_sums_in_any_order_stay_inside(terms):
    numbers = torch.randn(50, terms, generator=torch.Generator().manual_seed(terms))
    exact = numbers.double().sum(1)
    size = float(numbers.cumsum(1).abs().max())
    one_by_one = torch.zeros(50)
    for column in numbers.T:
        one_by_one += column
    for total in (numbers.sum(1), numbers.flip(1).sum(1), one_by_one):
        assert (total - exact).abs().max() < limit(terms, size)


def test_a_vector_that_is_off_in_one_number_is_named_with_its_distance():
    want = np.full((2, 64), 0.125, np.float32)
    same_vectors(want + 1e-7, want)
    with pytest.raises(AssertionError, match=r"1\.0e-04 apart"):
        same_vectors(want + np.eye(2, 64) * 1e-4, want)
