"""Batches under a token budget, and blocks of documents that are tokenised together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.batching import Budget, blocks
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
def test_batches_hold_every_document_once_and_keep_to_their_limits(lengths, budget) -> None:
    batches = budget.plan(lengths)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        lens = [lengths[i] for i in batch]
        assert len(batch) <= budget.batch_size
        assert len(batch) == 1 or len(batch) * budget.cost(max(lens)) <= budget.tokens
        assert len({n > budget.trained_len for n in lens}) == 1, "short and long documents share a batch"
        padded = len(batch) * max(lens)
        assert padded <= budget.fill or padded <= 1.1 * sum(lens) + 1e-6


@given(lengths, budgets, st.randoms())
def test_the_lengths_in_each_batch_do_not_depend_on_the_order_of_documents(lengths, budget, random) -> None:
    shuffled = random.sample(lengths, len(lengths))
    first = [[lengths[i] for i in batch] for batch in budget.plan(lengths)]
    assert first == [[shuffled[i] for i in batch] for batch in budget.plan(shuffled)]


def test_a_batch_size_below_one_document_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size must be at least 1 document, got 0"):
        Budget(tokens=1, batch_size=0, trained_len=2, even_len=1)


# ---- blocks ------------------------------------------------------------------------------------------------

sizes = st.lists(st.integers(0, 5000), max_size=60)


@given(sizes, st.integers(2, 600), st.integers(1, 500))
def test_every_text_is_in_exactly_one_block_and_longer_texts_come_first(sizes, max_len, batch_tokens) -> None:
    texts = ["x" * size for size in sizes]
    order = [i for block in blocks(texts, max_len, batch_tokens) for i in block]
    assert sorted(order) == list(range(len(texts)))
    assert [sizes[i] for i in order] == sorted(sizes, reverse=True)
