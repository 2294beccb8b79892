"""Batches of so many tokens, and blocks of documents that are tokenised together."""

from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.batching import blocks, plan

lengths = st.lists(st.integers(1, 300), max_size=80)
limits = st.tuples(st.integers(1, 1000), st.integers(1, 40), st.integers(0, 400))


@given(lengths, limits)
def test_batches_hold_every_document_once_and_keep_to_their_limits(lengths, limits) -> None:
    tokens, batch_size, small = limits
    batches = plan(lengths, tokens, batch_size, small)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        lens = [lengths[i] for i in batch]
        padded = len(batch) * max(lens)
        assert len(batch) <= batch_size
        assert len(batch) == 1 or padded <= tokens
        assert padded <= small or padded <= 1.1 * sum(lens) + 1e-6


@given(lengths, limits, st.randoms())
def test_the_lengths_in_each_batch_do_not_depend_on_the_order_of_documents(lengths, limits, random) -> None:
    shuffled = random.sample(lengths, len(lengths))
    first = [[lengths[i] for i in batch] for batch in plan(lengths, *limits)]
    assert first == [[shuffled[i] for i in batch] for batch in plan(shuffled, *limits)]


@given(st.lists(st.integers(0, 5000), max_size=60), st.integers(1, 500))
def test_every_text_is_in_exactly_one_block_and_longer_texts_come_first(sizes, block_tokens) -> None:
    expected = {"x" * size: size for size in sizes}
    order = [len(text) for block in blocks(expected, block_tokens) for text in block]
    assert order == sorted(set(sizes), reverse=True)
