"""Strategies on T5 equal a slow oracle: one document, one explicit bias for each pair of tokens."""

import copy
import functools
import math

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.families import relative as family
from tests import tiny
from tests.encoders.oracle_matrix.architectures import SPECIAL
from tests.encoders.oracle_matrix.oracle import relative
from tests.limits import same_vectors

from .test_rotary import LO, LT, extended, gap, through, windows

LENGTHS = (3, LO - 1, LO, LO + 1, 2 * LO + 3, LT, LT + 1)
TEXTS = [tiny.text(n) for n in LENGTHS]


@pytest.fixture(scope="module", params=["t5", "mt5", "umt5"])
def base(request, tmp_path_factory) -> SentenceTransformer:
    folder = tmp_path_factory.mktemp(request.param)
    return sharpened(tiny.sentence_transformer(request.param, folder, dense=True, **SPECIAL[request.param]))


def sharpened(model: SentenceTransformer) -> SentenceTransformer:
    """The model with weights so large that its biases matter."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "relative_attention_bias" in name:
                weight.normal_(0, 2)
            elif name.endswith((".q.weight", ".k.weight", ".v.weight", ".o.weight")):
                weight.normal_(0, 0.2)
    return model


def bucket(distance: int) -> int:
    """T5's bucket of a distance (key minus query), from its paper's description."""
    per_side, exact = 6, 3
    offset = per_side if distance > 0 else 0
    size = abs(distance)
    if size < exact:
        return offset + size
    spread = math.log(size / exact) / math.log(40 / exact) * (per_side - exact)
    return offset + min(exact + int(spread + 1e-6), per_side - 1)


def learned(weight: np.ndarray, distance: float) -> np.ndarray:
    low = math.floor(distance)
    return weight[bucket(low)] + (distance - low) * (weight[bucket(low + 1)] - weight[bucket(low)])


def oracle(base: SentenceTransformer, key: str, text: str, logn: bool) -> np.ndarray:
    model = copy.deepcopy(base)
    n = len(model.tokenizer(text, truncation=True, max_length=LT)["input_ids"])
    inner = model[0].model
    for block in inner.encoder.block:
        layer = block.layer[0].SelfAttention
        # T5 learns biases in its first layer, UMT5 in each
        if hasattr(layer, "relative_attention_bias"):
            weight = layer.relative_attention_bias.weight.detach().double().numpy()
            at = functools.cache(functools.partial(learned, weight))
            bias = np.array([[at(-relative(key, i, j, n)) for j in range(n)] for i in range(n)])
            made = torch.from_numpy(bias).float().permute(2, 0, 1)[None]
            layer.compute_bias = lambda *args, made=made, **kwargs: made
    if logn and n > LO:
        for block in inner.encoder.block:
            block.layer[0].SelfAttention.q.weight.data *= math.log(n) / math.log(LO)
    return through(model, text)


@pytest.mark.parametrize("key", ["none", "gp", "rp", "pi", "se", "rerope", "dca"])
def test_equals_the_oracle_whatever_else_is_in_the_batch(base, key):
    logn = key != "gp"
    together = extended(base, key, logn=logn).encode(TEXTS)
    for text, got in zip(TEXTS, together, strict=True):
        assert gap(got, oracle(base, key, text, logn)) < 1e-5


def test_windows_are_pooled_one_by_one_and_short_inputs_untouched(base):
    *short, long = extended(base, "pcw").encode(TEXTS[:5])
    same_vectors(np.stack(short[:3]), base.encode(TEXTS[:3]))
    assert gap(long, windows(base, TEXTS[4])) < 1e-5


def test_biases_come_in_blocks_and_never_as_a_whole(base, monkeypatch):
    want = extended(base, "gp").encode(TEXTS)
    sizes = []
    block = family.DistanceBias.block

    def watched(self, rows, documents, n):
        out = block(self, rows, documents, n)
        sizes.append((n, out.shape[1]))
        return out

    monkeypatch.setattr(family.DistanceBias, "block", watched)
    monkeypatch.setattr(family, "_BLOCK", 4 * LT * 20)
    same_vectors(extended(base, "gp").encode(TEXTS), want)
    assert {rows for n, rows in sizes if n == LT} == {20, 4}


def test_half_precision_stays_within_two_percent(base):
    exact = extended(base, "gp").encode(TEXTS)
    half_base = copy.deepcopy(base)
    half_base[0].bfloat16()
    model = extended(half_base, "gp")
    # sentence-transformers gives all modules the first one's type; ours pool and project in fp32
    model[2].float()
    rounded = model.encode(TEXTS)
    cosine = (exact * rounded).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rounded, axis=1)
    assert (1 - cosine).max() < 0.02
