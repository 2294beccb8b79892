"""One vector a span: equal to a loop over the tokens that a span touches."""

from pathlib import Path

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.sentences import spans_by_sentences
from tests import tiny
from tests.limits import same_vectors

from .strategies.test_pcw import finished


@pytest.mark.parametrize("key", ["pi", "pcw"])
@pytest.mark.parametrize("prompt", [None, ""])
def test_a_span_is_the_mean_of_its_tokens(base, key, prompt):
    model = longembed.extend(base, key)
    # words of two letters are one token: token i stands at characters 3 i and 3 i + 1
    texts, spans = [tiny.text(40), tiny.text(10)], [[(0, 2), (3, 60), (31, 34), (0, 113)], [(6, 11)]]
    got = longembed.encode_spans(model, texts, spans, prompt=prompt)
    full = "passage : " if prompt is None else prompt
    n_prefix = 1 + (2 if full else 0)
    for text, text_spans, vectors in zip(texts, spans, got, strict=True):
        tokens = model.encode([text], prompt=full, output_value="token_embeddings")[0]
        for (start, end), vector in zip(text_spans, vectors, strict=True):
            inside = [i for i in range((len(text) + 1) // 3) if 3 * i < end and 3 * i + 2 > start]
            [want] = finished(base, [sum(tokens[n_prefix + i] for i in inside) / len(inside)])
            assert np.abs(want - vector).max() < 1e-5


def test_a_lone_surrogate_is_read_as_the_replacement_character(base):
    model, spans = longembed.extend(base, "pi"), [[(0, 2), (5, 7)]]
    lone, replaced = (longembed.encode_spans(model, [f"aa {c} bb"], spans) for c in "\ud83d\ufffd")
    same_vectors(lone[0], replaced[0])


def test_sentences_are_joined_up_to_a_length():
    text = "One two. Three?\n\nFour five six. Seven"
    alone = [text[a:b] for a, b in spans_by_sentences(text)]
    assert alone == ["One two.", "Three?", "Four five six.", "Seven"]
    joined = [text[a:b] for a, b in spans_by_sentences(text, 15)]
    assert joined == ["One two. Three?", "Four five six.", "Seven"]
    assert spans_by_sentences("  ") == []


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(3, 3)], r"^a span must be \(start, end\) with 0 <= start < end"),
        ([(-1, 3)], r"^a span must be"),
        ([(0, 10**6)], r"^a span must be"),
        ([(2, 3)], "^a span must hold tokens, and end within"),
        ([(450, 452)], "^a span must hold tokens, and end within the .* characters of text 0"),
    ],
)
def test_a_span_that_has_no_vector_is_an_error(base, spans, message):
    with pytest.raises(InputError, match=message):
        longembed.encode_spans(longembed.extend(base, "pi"), [tiny.text(200)], [spans])


def test_models_that_do_not_average_tokens_are_refused(base, tmp_path: Path):
    with pytest.raises(InputError, match="without vectors, got a LongMultiVectorEncoder"):
        longembed.encode_spans(longembed.extend(base, "pi", vectors=4), ["a"], [[(0, 1)]])
    with pytest.raises(InputError, match="without vectors, got a SentenceTransformer"):
        longembed.encode_spans(base, ["a"], [[(0, 1)]])
    other = tiny.sentence_transformer("bert", tmp_path, pooling="cls", name="tiny/cls")
    with pytest.raises(IncompatibleError, match="trained with cls pooling"):
        longembed.encode_spans(longembed.extend(other, "pi"), ["ab"], [[(0, 2)]])
    with pytest.raises(ValueError, match="longer than argument"):
        longembed.encode_spans(longembed.extend(base, "pi"), ["a"], [[], []])
