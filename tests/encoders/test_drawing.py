import tracemalloc

import numpy as np
import pytest

from mteb_longembed.encoders.tokens import draw, estimated_tokens

TEXTS = [f"{number} " * (number % 7 + 1) for number in range(60)]


def drawn_by_hand(texts: list[str], longest: int, max_tokens: int, seed: int) -> list[str]:
    """Documents in a random order until they have enough tokens, in the order of the corpus."""
    numbers = np.random.default_rng(seed).random(len(texts))
    chosen = []
    n_tokens = 0
    for place in np.argsort(numbers):
        if n_tokens >= max_tokens:
            break
        chosen.append(place)
        n_tokens += min(estimated_tokens(texts[place]), longest)
    return [texts[place] for place in sorted(chosen)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("max_tokens", [1, 20, 100, 10_000])
@pytest.mark.parametrize("longest", [3, 100])
def test_a_reservoir_is_a_random_order_that_ends_once_it_has_its_tokens(seed, max_tokens, longest) -> None:
    texts, n_documents = draw(iter(TEXTS), longest, max_tokens, seed)
    assert texts == drawn_by_hand(TEXTS, longest, max_tokens, seed)
    assert n_documents == len(TEXTS)


def test_a_text_that_the_model_reads_in_part_counts_as_that_part() -> None:
    long = ["word " * 1000] * 20
    assert len(draw(long, 50, max_tokens=500)[0]) == 10
    assert len(draw(long, None, max_tokens=500)[0]) == 1


def test_memory_does_not_depend_on_the_length_of_a_stream() -> None:
    peaks = []
    for n in (20_000, 200_000):
        tracemalloc.start()
        texts, n_documents = draw(
            (f"document {number} of many" for number in range(n)), None, max_tokens=5_000
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert n_documents == n and 500 < len(texts) < 1_000
    assert peaks[1] < 1.2 * peaks[0]
