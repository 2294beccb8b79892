"""Words that the corpus lacks, token roles that share an id, and half precision: rules of weights at their edges."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.weights import NO_WEIGHT, RULES, TokenCounts, special_ids
from tests import tiny

NOTES = [
    "The grey boat left the harbour at dawn.",
    "The baker sells warm bread on Sundays.",
    "The clock in the hall stopped at noon.",
    "My neighbour has a large brown dog.",
    "The spare key is under the green mat.",
    "Heavy rain flooded the lower road.",
    "She sang an old song to the children.",
    "The tall tree fell in the storm.",
]
#: Their words, behind words that no note has.
QUESTIONS = [
    "could somebody please remind me again when exactly the grey boat left the harbour",
    "could somebody please remind me again who actually sells warm bread on Sundays",
    "could somebody please remind me again whether the clock in the hall stopped",
    "could somebody please remind me again whether my neighbour has a brown dog",
    "could somebody please remind me again where exactly the spare key is",
    "could somebody please remind me again what flooded the lower road",
    "could somebody please remind me again who sang an old song to the children",
    "could somebody please remind me again why the tall tree fell in the storm",
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [1, 8, 100, 10_000])
def test_no_token_that_was_never_seen_counts_more_than_one_seen_once(rule, n) -> None:
    # token 0: never; token 1: once in one document; token 2: in every document
    counts = TokenCounts(np.array([0, 1, 2 * n]), np.array([0, 1, n]), n)
    never, once, common = RULES[rule](counts)
    assert never <= once
    assert common <= once


@pytest.mark.parametrize("rule", RULES)
def test_words_that_no_note_has_do_not_rule_the_question(rule) -> None:
    models = tiny.adapted("mini-ape", NOTES, whiten=0, weights=rule), longembed.load("mini-ape", device="cpu")
    scores = [model.encode_query(QUESTIONS) @ model.encode_document(NOTES).T for model in models]
    right = [int((each.argmax(1) == np.arange(len(NOTES))).sum()) for each in scores]
    assert right[0] >= right[1] >= 6


def test_an_end_token_that_also_stands_for_unknown_words_has_no_weight(tmp_path: Path) -> None:
    tokens = tiny.tokenizer()
    tokens.unk_token = tokens.sep_token  # as in Qwen
    folder = tiny.transformer("bert", tmp_path, tokens=tokens)
    model = tiny.adapted(longembed.extend(folder, "none", device="cpu"), ["aa bb", "bb cc"], whiten=0)
    end = model.tokenizer.convert_tokens_to_ids("[SEP]")
    assert end in special_ids(model.tokenizer)
    assert model[1].emb_layer.weight[end].item() == pytest.approx(NO_WEIGHT)


def test_an_unknown_token_of_one_role_stands_for_content() -> None:
    tokens = tiny.tokenizer()
    assert tokens.unk_token_id not in special_ids(tokens)
    assert {tokens.cls_token_id, tokens.sep_token_id, tokens.pad_token_id} <= set(special_ids(tokens))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("text", "least"), [("", 0.99), ("[MASK] [MASK]", 0.99), ("日本", 0.95)])
def test_a_text_without_known_words_keeps_the_bases_vector_in_every_precision(dtype, text, least, tmp_path):
    # unknown words count, and the special tokens around them do not
    folder = tiny.saved("bert", tmp_path)
    for base in (
        SentenceTransformer(str(folder), device="cpu"),
        longembed.extend(folder, "none", device="cpu"),
    ):
        base.to(dtype)
        before = np.asarray(base.encode([text], convert_to_tensor=True).float())
        after = np.asarray(
            tiny.adapted(base, ["aa bb", "bb cc"], whiten=0).encode([text], convert_to_tensor=True).float()
        )
        assert np.isfinite(after).all()
        assert (before * after).sum() > least
