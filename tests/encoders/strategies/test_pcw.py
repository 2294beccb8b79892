"""Windows: every token is read, all windows are full, the last one moves back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows
from mteb_longembed.errors import InputError
from tests import tiny
from tests.limits import same_vectors

LO, LT = tiny.TRAINED, 8 * tiny.TRAINED


def windows(trained: int, n: int, prefix: int, suffix: int, **params: int) -> list[list[int]]:
    strategy = ParallelContextWindows(trained_len=trained, target_len=max(n, trained), **params)
    return strategy.windows(n, prefix, suffix).tolist()


def slow_windows(n: int, size: int, overlap: int, prefix: int, suffix: int) -> list[list[int]]:
    """The definition, token by token."""
    content = list(range(prefix, n - suffix))
    room = size - prefix - suffix
    cut, start = [], 0
    while True:
        body = content[start : start + room]
        if start + room >= len(content):
            body = content[max(len(content) - room, 0) :]
        cut.append([*range(prefix), *body, *range(n - suffix, n)])
        if start + room >= len(content):
            return cut
        start += room - overlap


@given(st.data())
def test_windows_of_every_size_and_overlap_are_those_of_the_definition(data):
    prefix, suffix = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 1))
    size = data.draw(st.integers(prefix + suffix + 1, 40))
    overlap = data.draw(st.integers(0, size - prefix - suffix - 1))
    n = data.draw(st.integers(prefix + suffix, 200))
    trained = data.draw(st.integers(max(size, 2), 50))
    size = max(size, 2)
    if overlap >= size - prefix - suffix:
        overlap = 0
    got = windows(trained, n, prefix, suffix, size=size, overlap=overlap)
    assert got == slow_windows(n, size, overlap, prefix, suffix)
    assert len(got) == 1 or all(len(window) == size for window in got)
    assert {token for window in got for token in window} == set(range(n))


def test_a_prompt_that_fills_the_window_is_an_error():
    with pytest.raises(InputError, match="shorter than the window of 4 tokens, got 4"):
        windows(4, 9, 3, 1)


def test_an_overlap_that_leaves_no_step_is_an_error():
    with pytest.raises(InputError, match="overlap must be below the 3 content tokens of a window of 6"):
        windows(9, 30, 2, 1, size=6, overlap=3)


# ---- as a model ----------------------------------------------------------------------------------------------


TEXTS = [tiny.text(n, n) for n in (2, 3, 8, 9, LO, LO + 1, 40, LT, LT + 5)]


def finished(base: SentenceTransformer, pooled: list[torch.Tensor]) -> np.ndarray:
    """The base's modules behind the pooling, one vector at a time."""
    rows = []
    for vector in pooled:
        features = {"sentence_embedding": vector[None]}
        for module in list(base)[2:]:
            with torch.no_grad():
                features = module(features)
        rows.append(features["sentence_embedding"][0].numpy())
    return np.stack(rows)


def alone(base: SentenceTransformer, ids: list[int]) -> torch.Tensor:
    """The pooled vector of these tokens by themselves."""
    part = torch.tensor([ids])
    with torch.no_grad():
        out = base[1](base[0]({"input_ids": part, "attention_mask": torch.ones_like(part)}))
    return out["sentence_embedding"][0]


def oracle(base, text, size=LO, overlap=0, prompt="", target=LT) -> np.ndarray:
    """One document: each window by itself through the base, averaged by hand, then the remaining modules."""
    ids = base.tokenizer(prompt + text, truncation=True, max_length=target)["input_ids"]
    # `query :` and `passage :` are two tokens each
    prefix, n = 1 + (2 if prompt else 0), len(ids)
    cut = [list(range(n))] if n <= size else slow_windows(n, size, overlap, prefix, 1)
    pooled = [alone(base, [ids[i] for i in window]) for window in cut]
    return finished(base, [torch.stack(pooled).mean(0)])[0]


@pytest.mark.parametrize(
    ("size", "overlap", "prompt"), [(8, 0, ""), (8, 3, "query : "), (9, 4, "query : "), (LO, 5, "")]
)
def test_embeddings_are_those_of_each_window_by_itself(base, size, overlap, prompt):
    model = longembed.extend(base, "pcw", size=size, overlap=overlap)
    together = model.encode(TEXTS, prompt=prompt)
    for text, got in zip(TEXTS, together, strict=True):
        want = oracle(base, text, size, overlap, prompt)
        assert np.abs(got - want).max() < 1e-5
        assert np.abs(got - model.encode(text, prompt=prompt)).max() < 1e-5


def test_the_defaults_are_the_papers_windows(base):
    plain, full = longembed.extend(base, "pcw"), longembed.extend(base, "pcw", size=LO, overlap=0)
    assert plain.model_card_data.model_name == full.model_card_data.model_name == "tiny/bert+pcw@128"
    assert plain.backbone.strategy == full.backbone.strategy


def test_the_name_carries_what_is_not_a_default_and_a_saved_model_keeps_it(base, tmp_path: Path):
    model = longembed.extend(base, "pcw", size=8, overlap=2)
    name = "+pcw@128,overlap=2,size=8"
    assert model.model_card_data.model_name == "tiny/bert" + name
    model.save_pretrained(str(tmp_path / "saved"))
    saved = longembed.load(tmp_path / "saved", device="cpu")
    assert saved.model_card_data.model_name == "local/saved" + name
    same_vectors(saved.encode(TEXTS), model.encode(TEXTS))
