"""The first module: how long inputs may be."""

import pytest

import mteb_longembed
from mteb_longembed.errors import InputError
from tests import tiny


@pytest.mark.parametrize(("kind", "key"), [("bert", "pi"), ("qwen3", "ntk"), ("qwen3", "pcw")])
def test_a_text_beyond_the_target_is_refused_in_one_sentence(kind, key, tmp_path):
    base = tiny.sentence_transformer(kind, tmp_path, num_key_value_heads=4, name="local/tiny")
    model = mteb_longembed.extend(base, key, 64, 16)
    model.max_seq_length = 9999
    with pytest.raises(InputError, match=r"at most 64 tokens, .* got 100: set max_seq_length to at most 64"):
        model.encode(tiny.text(100))
    model.max_seq_length = 20
    assert model.trunk.kept_len == 20
