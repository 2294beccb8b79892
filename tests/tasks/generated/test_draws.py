"""The draws are the same on every machine, even and without repeats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mteb_longembed.tasks.generated.draws import Draws


def test_draws_are_even() -> None:
    draws = Draws("even")
    counts = [0] * 20
    for _ in range(20_000):
        counts[draws.below(20)] += 1
    assert chisquare(counts).pvalue > 0.001


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_distinct_numbers_are_in_range_and_never_repeat(seed: int, n: int) -> None:
    drawn = Draws(str(seed)).distinct(n, 60)
    assert len(set(drawn)) == n
    assert all(0 <= number < 60 for number in drawn)


@given(st.lists(st.integers(), max_size=30), st.text(max_size=5))
def test_shuffling_keeps_the_items_and_the_original(items: list[int], key: str) -> None:
    before = list(items)
    assert sorted(Draws(key).shuffled(items)) == sorted(items)
    assert items == before
