"""RoFormer through our attention: transformers' own embeddings, and an oracle's beyond the trained length."""

import copy
import math

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed.errors import IncompatibleError
from tests import tiny
from tests.encoders.attention import oracles
from tests.encoders.oracle_matrix.oracle import frequencies, relative
from tests.limits import same_vectors

from .test_rotary import LO, LT, STRATEGY_PARAMETERS, extended, gap

LENGTHS = (3, LO - 1, LO, LO + 1, 2 * LO + 3, LT)
TEXTS = [tiny.text(n) for n in LENGTHS]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> SentenceTransformer:
    return tiny.sentence_transformer("roformer", tmp_path_factory.mktemp("roformer"), embedding_size=32)


class DenseAttention(torch.nn.Module):
    """RoFormer's self-attention in float64, every pair of tokens turned by hand (neighbours as pairs)."""

    def __init__(self, attention: torch.nn.Module, key: str) -> None:
        super().__init__()
        self.attention, self.key = attention, key

    def forward(self, hidden_states, attention_mask=None, sinusoidal_pos=None, **kwargs):
        n = hidden_states.shape[1]
        layers = (self.attention.query, self.attention.key, self.attention.value)
        q, k, v = (layer(hidden_states)[0].double().view(n, 4, 8).transpose(0, 1) for layer in layers)
        inv_freq = frequencies(self.key, 1e4 ** -(torch.arange(0, 8, 2, dtype=torch.float64) / 8), 1e4, n)
        at = torch.tensor([[relative(self.key, i, j, n) for j in range(n)] for i in range(n)]).double()
        turned = oracles.turned(q[:, :, None], at, inv_freq, interleaved=True)
        scores = (turned * k[:, None]).sum(-1) / math.sqrt(8)
        if n > LO:
            scores = scores * math.log(n) / math.log(LO)
        out = (scores.softmax(-1) @ v).transpose(0, 1).reshape(1, n, 32)
        return out.float(), None


def oracle(base: SentenceTransformer, key: str, text: str) -> np.ndarray:
    model = copy.deepcopy(base)
    model.max_seq_length = LT
    encoder = model[0].model.encoder
    encoder.embed_positions = torch.nn.Embedding(LT, 8)
    encoder.embed_positions.forward = lambda shape, *args: torch.zeros(shape[1], 8)
    for layer in encoder.layer:
        layer.attention.self = DenseAttention(layer.attention.self, key)
    return model.encode(text)


@pytest.mark.parametrize("key", sorted(STRATEGY_PARAMETERS))
def test_equals_the_oracle_whatever_else_is_in_the_batch(base, key):
    together = extended(base, key, **STRATEGY_PARAMETERS[key]).encode(TEXTS)
    for text, got in zip(TEXTS, together, strict=True):
        assert gap(got, oracle(base, key, text)) < 1e-5


@pytest.mark.parametrize("key", ["none", "pcw", "se"])
def test_short_inputs_are_untouched(base, key):
    same_vectors(extended(base, key).encode(TEXTS[:3]), base.encode(TEXTS[:3]))


def test_turned_values_follow_position_strategies_and_refuse_relative_ones(tmp_path):
    base = tiny.sentence_transformer("roformer", tmp_path, embedding_size=32, rotary_value=True)
    same_vectors(extended(base, "gp").encode(TEXTS[:3]), base.encode(TEXTS[:3]))
    with pytest.raises(IncompatibleError, match=r"also rotates its values \(rotary_value\); use gp, rp, pi"):
        extended(base, "se")
