"""Every native architecture that we claim, against oracles that share no code with it."""

from pathlib import Path

import pytest
import torch

import mteb_longembed
from tests.encoders.test_rotary import LO, LT

from . import architectures, cells
from .oracle import VARIANTS, Oracle

#: One architecture of each kind, with what the families' own tests do not cover.
USUAL = {
    "bert": ["pcw"],
    "qwen2": ["pi scale"],
    "qwen3_moe": ["gp target"],
    "stablelm": ["ntk keep", "yarn logn off"],
    "embedding_gemma2_text, sliding": ["none", "se"],
    "llama, longrope": ["none", "gp target", "ntk keep"],
    "llama, dynamic": ["none", "pi", "ntk"],
    "llama, yarn": ["gp", "ntk"],
    "llama, llama3": ["pi", "ntk"],
}


def checked(name: str, folder: Path, labels: list[str] | None = None) -> cells.Outcome:
    try:
        outcome = cells.check(name, folder, labels)
    except (architectures.NotClaimed, architectures.NotBuilt) as reason:
        pytest.skip(f"{type(reason).__name__}: {reason}")
    assert not outcome.failed
    return outcome


@pytest.mark.parametrize("name", sorted(USUAL))
def test_equals_the_oracle_at_every_length_of_one_batch(name, tmp_path):
    outcome = checked(name, tmp_path, USUAL[name])
    # an oracle that is not the stock model says nothing
    assert outcome.compared and not outcome.unknown


@pytest.mark.long
@pytest.mark.parametrize("name", list(architectures.names()))
def test_every_architecture_of_the_registry_equals_the_oracle(name, tmp_path):
    extended: set[str] = set()
    for number, variant in enumerate(architectures.with_windows(name)):
        outcome = checked(variant, tmp_path / str(number))
        extended |= set(outcome.compared) | set(outcome.unknown)
    # what we claim to extend takes a strategy beyond the ones that need nothing from inside
    assert extended - {"none", "pcw"}, "the fit table claims it, and every strategy refuses it"


@pytest.mark.parametrize("label", ["pi", "yarn logn off", "se document"])
@pytest.mark.parametrize("name", ["llama", "jina_embeddings_v3"])
def test_gradients_are_the_oracles(name, label, tmp_path):
    base = architectures.build(name, tmp_path)
    key, params = VARIANTS[label]
    model = mteb_longembed.extend(base, key, LT, LO, **params)
    text, weight = cells.TEXTS[3], torch.linspace(-1, 1, 32)
    model.encode(text)
    (model(model.preprocess([text]))["sentence_embedding"][0] * weight).sum().backward()
    dense = Oracle(base, label, logn=params.get("logn", True))
    (dense.features(text) * weight.double()).sum().backward()
    wanted = {name: p.grad for name, p in dense.model.named_parameters() if p.grad is not None}
    largest = max(float(grad.abs().max()) for grad in wanted.values())
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert set(grads) == set(wanted)
    for name, grad in wanted.items():
        assert (grads[name] - grad).abs().max() < 1e-4 * largest, name
