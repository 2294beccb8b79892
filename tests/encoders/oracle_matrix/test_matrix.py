"""Every native architecture that `mteb-longembed list fit` claims, against oracles that share no code with it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import mteb_longembed
from mteb_longembed.encoders.modules import LongTransformer
from mteb_longembed.encoders.strategies import STRATEGIES
from tests import tiny
from tests.encoders.families.test_absolute import positions_of
from tests.encoders.families.test_rotary import LO, LT

from . import architectures, cells
from .oracle import VARIANTS, Dense

#: What the families' own tests do not cover: neighbours as pairs, parts that turn, capped scores, frequencies
#: by length; and the variants of the strategies.
USUAL = {
    "glm": ["none", "pi", "se", "se document", "dca ChunkLlama", "yarn logn off"],
    "stablelm": ["ntk keep", "pi scale", "yarn logn off"],
    "gemma2": ["pi", "yarn logn off", "se"],
    "llama, longrope": ["none", "gp target", "ntk"],
}


def compared(name: str, folder: Path, labels: list[str] | None = None) -> None:
    try:
        ended = cells.check(name, folder, labels)
    except (architectures.NotClaimed, architectures.NotBuilt, cells.NotFollowed) as reason:
        pytest.skip(f"{type(reason).__name__}: {reason}")
    # an architecture that every strategy refuses in one sentence is no failure of the whole matrix
    assert labels is None or ended["equal"] > 0


@pytest.mark.parametrize("name", sorted(USUAL))
def test_equals_the_oracle_at_every_length_of_one_batch(name, tmp_path):
    compared(name, tmp_path, USUAL[name])


@pytest.mark.long
@pytest.mark.parametrize("name", list(architectures.names()))
def test_every_architecture_of_the_registry_equals_the_oracle(name, tmp_path):
    compared(name, tmp_path)


@pytest.mark.parametrize("label", ["pi", "yarn logn off", "se document", "dca"])
def test_gradients_are_the_oracles(label, tmp_path):
    base = architectures.build("glm", tmp_path)
    key, params = VARIANTS[label]
    model = mteb_longembed.extend(base, key, LT, LO, **params)
    text, weight = cells.TEXTS[3], torch.linspace(-1, 1, 32)
    model.encode(text)
    (model(model.preprocess([text]))["sentence_embedding"][0] * weight).sum().backward()
    dense = Dense(base, label, neighbours=True, logn=params.get("logn", True))
    (dense.features(text) * weight.double()).sum().backward()
    wanted = {name: p.grad for name, p in dense.model.named_parameters() if p.grad is not None}
    largest = max(float(grad.abs().max()) for grad in wanted.values())
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert set(found) == set(wanted)
    for name, grad in wanted.items():
        assert (found[name] - grad).abs().max() < 1e-4 * largest, name


@pytest.mark.parametrize("label", ["pi", "yarn logn off", "se"])
def test_half_precision_stays_within_two_percent_of_the_oracle(label, tmp_path):
    base = architectures.build("glm", tmp_path)
    key, params = VARIANTS[label]
    half = mteb_longembed.extend(copy.deepcopy(base).bfloat16(), key, LT, LO, **params).encode(cells.TEXTS)
    dense = Dense(base, label, neighbours=True, logn=params.get("logn", True))
    exact = np.stack([dense.encode(text).numpy() for text in cells.TEXTS])
    # bf16 keeps 8 bits, so weights alone are off by 0.4 %
    assert (1 - (exact * half).sum(1)).max() < 0.02


def test_a_table_that_is_stretched_already_is_read_as_e5_base_4k_is(tmp_path):
    """Inputs up to `Lo` read rows 0, s, 2s ..., longer ones every row."""
    base = tiny.sentence_transformer("bert", tmp_path, max_position_embeddings=LT)
    strategy = STRATEGIES["pi"](trained_len=LO, target_len=LT, logn=False)
    modules = list(copy.deepcopy(base))
    modules[0] = LongTransformer.around(modules[0], strategy, extended=True)
    got = type(base)(modules=modules, device="cpu").encode(cells.TEXTS)
    table = positions_of(base).weight.detach()
    for text, n, one in zip(cells.TEXTS, cells.LENGTHS, got, strict=True):
        alone = copy.deepcopy(base)
        alone.max_seq_length = LT
        rows = table[:: LT // LO] if n <= LO else table
        alone[0].model.embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(rows)
        assert np.abs(alone.encode(text) - one).max() < cells.TOLERANCE
