"""The modules themselves: how long inputs may be, what printing shows, which tokens every window repeats."""

import pytest

import mteb_longembed
from mteb_longembed.errors import InputError
from tests import tiny


@pytest.mark.parametrize(("kind", "key"), [("bert", "pi"), ("qwen3", "ntk"), ("qwen3", "pcw")])
def test_a_length_beyond_the_target_is_refused_in_one_sentence(kind, key, tmp_path):
    base = tiny.sentence_transformer(kind, tmp_path, num_key_value_heads=4, name="local/tiny")
    model = mteb_longembed.extend(base, key, 64, 16)
    message = r"max_seq_length must be at most 64 .*got 9999; .* trained_len=9999"
    with pytest.raises(InputError, match=message):
        model.max_seq_length = 9999
    assert model.max_seq_length == 64
    # sentence-transformers itself writes there
    model.tokenizer.model_max_length = 9999
    with pytest.raises(InputError, match="must be at most 64 tokens"):
        model.encode(tiny.text(100))
    model.max_seq_length = 20
    assert model.trunk.kept_len == 20


def test_printing_shows_strategy_and_lengths(tmp_path):
    base = tiny.sentence_transformer("bert", tmp_path, name="local/tiny")
    assert "(0): LongTransformer(strategy=pi, 16 -> 64)" in str(mteb_longembed.extend(base, "pi", 64, 16))
    assert "(1): LongPooling(" in str(mteb_longembed.extend(base, "pcw", 64, 16))
