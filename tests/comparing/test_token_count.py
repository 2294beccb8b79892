"""Tokens of a text, by a tokenizer or by words."""

from mteb_longembed.comparing.token_count import count_tokens, tokenizer_of
from tests.tiny import tokenizer

TOKENIZER = tokenizer()


def test_a_tokenizer_counts_without_special_tokens_and_words_without_one() -> None:
    text = "ab cd, ef. " * 10
    assert count_tokens(text, TOKENIZER) == len(TOKENIZER(text, add_special_tokens=False)["input_ids"])
    assert count_tokens(text) == round(30 / 0.75)


def test_the_tokenizer_of_a_wrapped_model_is_found() -> None:
    class Model:
        tokenizer = TOKENIZER

    class Wrapper:
        model = Model()

    assert tokenizer_of(Wrapper()) is tokenizer_of(Model()) is TOKENIZER
    assert tokenizer_of(object()) is None
