"""Texts are cut after exactly as many tokens as asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.tasks.cutting import Counter, counter_of
from tests.tiny import tokenizer

TOKENIZER = tokenizer()
SOME_TEXT = st.text("abcdefgh .,:\n", max_size=200)


@given(SOME_TEXT, st.integers(1, 50))
def test_a_cut_text_has_the_tokens_asked_for(text: str, length: int) -> None:
    n_tokens, (end,) = Counter(TOKENIZER, "tiny").ends(text, [length])
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    assert n_tokens == len(ids)
    assert TOKENIZER(text[:end], add_special_tokens=False)["input_ids"] == ids[:length]
    if length >= n_tokens:
        assert end == len(text)


@given(SOME_TEXT, st.integers(1, 100))
def test_without_a_tokenizer_three_words_count_as_four_tokens(text: str, length: int) -> None:
    n_tokens, (end,) = Counter().ends(text, [length])
    words = text.split()
    assert n_tokens == round(len(words) / 0.75)
    assert text[:end].split() == words[: length * 3 // 4]


def test_the_tokenizer_of_a_wrapped_model_is_found() -> None:
    class Model:
        tokenizer = TOKENIZER

    class Wrapper:
        model = Model()

    assert counter_of(Wrapper(), "tiny").name == counter_of(Model(), "tiny").name == "tokens of tiny"
    assert counter_of(object(), "bm25").name == counter_of(None, "bm25").name == "words / 0.75"
