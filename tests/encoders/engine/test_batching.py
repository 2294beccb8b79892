"""Batches under a token budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.engine.batching import Budget, plan, split_by_cost
from mteb_longembed.errors import InputError

lengths = st.lists(st.integers(0, 300), max_size=80)
budgets = st.builds(
    Budget,
    tokens=st.integers(1, 1000),
    batch_size=st.integers(1, 40),
    trained_len=st.integers(2, 100),
    even_len=st.floats(10, 5000),
    fill=st.integers(0, 400),
)


@given(lengths, budgets)
def test_batches_hold_every_document_once_and_keep_to_their_limits(
    lengths: list[int], budget: Budget
) -> None:
    batches = plan(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        own = [lengths[i] for i in batch]
        assert len(batch) <= budget.batch_size
        assert len(batch) == 1 or len(batch) * budget.cost(max(own)) <= budget.tokens
        assert len({n > budget.trained_len for n in own}) == 1, "short and long documents share a batch"
        padded = len(batch) * max(own)
        assert padded <= budget.fill or padded <= (1 + budget.waste) * sum(own) + 1e-6


@given(lengths, budgets, st.randoms())
def test_the_lengths_in_each_batch_do_not_depend_on_the_order_of_documents(lengths, budget, random) -> None:
    shuffled = random.sample(lengths, len(lengths))
    first = [[lengths[i] for i in batch] for batch in plan(lengths, budget)]
    assert first == [[shuffled[i] for i in batch] for batch in plan(shuffled, budget)]


def test_documents_of_equal_length_run_together_up_to_the_budget() -> None:
    budget = Budget(tokens=4100, batch_size=32, trained_len=512, even_len=1e9)
    assert [len(batch) for batch in plan([512] * 20, budget)] == [8, 8, 4]


def test_attention_cost_shrinks_batches_of_long_documents() -> None:
    cheap = Budget(tokens=8200, batch_size=32, trained_len=512, even_len=1e9)
    dear = Budget(tokens=8192, batch_size=32, trained_len=512, even_len=2048)
    assert [len(b) for b in plan([2048] * 4, cheap)] == [4]
    assert [len(b) for b in plan([2048] * 4, dear)] == [2, 2]


def test_a_batch_size_below_one_document_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1 document, got 0"):
        Budget(tokens=1, batch_size=0, trained_len=2, even_len=1)


@given(st.lists(st.integers(0, 1000), max_size=60), st.integers(1, 20))
def test_parts_hold_every_document_once_and_no_more_than_a_share(costs: list[int], n_parts: int) -> None:
    parts = split_by_cost(costs, n_parts)
    assert sorted(i for part in parts for i in part) == list(range(len(costs)))
    share = sum(costs) / n_parts
    assert all(len(part) == 1 or sum(costs[i] for i in part) <= share + 1e-6 for part in parts)
