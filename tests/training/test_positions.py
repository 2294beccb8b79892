"""The probes of positions, with the embedded models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed.names.zoo import ZOO
from tests.limits import same_vectors
from training.measuring import Cell, measure
from training.positions import embed_at, everywhere_0, hits_of, shuffled, with_one_row
from training.retrieval import generated

TEXTS = ["the miller feeds the geese before dawn .", "a letter came ."]
BACKWARDS = [" ".join(reversed(text.split())) for text in TEXTS]


def opened(name: str) -> SentenceTransformer:
    return SentenceTransformer(ZOO[name].path, device="cpu").eval()


@pytest.mark.parametrize("name", ["mini-ape", "mini-rope"])
def test_the_usual_positions_give_the_usual_embeddings(name):
    base = opened(name)
    same_vectors(embed_at(base, TEXTS, torch.arange), base.encode(TEXTS))


def test_shuffled_positions_are_a_permutation_that_keeps_both_ends():
    drawn = shuffled(0)(50)
    assert sorted(drawn.tolist()) == list(range(50)) and drawn.tolist() != list(range(50))
    assert (drawn[0], drawn[-1]) == (0, 49)


def test_with_one_row_for_all_positions_the_order_of_words_is_lost():
    base = opened("mini-ape")
    usual = base.encode(TEXTS)
    one = with_one_row(base)
    assert np.array_equal(base.encode(TEXTS), usual)  # only the copy was changed
    assert not np.allclose(usual, base.encode(BACKWARDS), atol=1e-3)
    forwards, backwards = (embed_at(one, texts, everywhere_0) for texts in (TEXTS, BACKWARDS))
    assert np.allclose(forwards, backwards, atol=1e-5)


def test_what_is_found_is_what_the_runner_of_mteb_finds(tmp_path):
    base = opened("mini-rope")
    found = hits_of(generated("LongEmbedPasskey", 256), base.encode, base.encode)
    assert found == measure(Cell("mini-rope", "LongEmbedPasskey", "test_256"), tmp_path)
    assert 0 < sum(found.values()) < 50
