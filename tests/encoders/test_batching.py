"""Batches of so many tokens."""

from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.batching import plan

lengths = st.lists(st.integers(1, 300), max_size=80)
limits = st.tuples(st.integers(1, 1000), st.integers(1, 40))


@given(lengths, limits)
def test_batches_hold_every_document_once_and_keep_to_their_limits(lengths, limits) -> None:
    tokens, batch_size = limits
    batches = plan(lengths, tokens, batch_size)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        lens = [lengths[i] for i in batch]
        padded = len(batch) * max(lens)
        assert len(batch) <= batch_size
        assert len(batch) == 1 or padded <= tokens
        assert padded <= tokens // 16 or padded <= 1.1 * sum(lens) + 1e-6


@given(lengths, limits, st.randoms())
def test_the_lengths_in_each_batch_do_not_depend_on_the_order_of_documents(lengths, limits, random) -> None:
    shuffled = random.sample(lengths, len(lengths))
    first = [[lengths[i] for i in batch] for batch in plan(lengths, *limits)]
    assert first == [[shuffled[i] for i in batch] for batch in plan(shuffled, *limits)]
