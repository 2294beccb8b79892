"""One architecture of the matrix: each strategy that fits against its oracle, in one batch of mixed lengths."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed
import mteb_longembed.encoders.strategies
from mteb_longembed.encoders.families import Absolute, Relative, RoFormer
from mteb_longembed.errors import LongEmbedError
from tests import tiny
from tests.encoders.families import test_absolute, test_relative, test_roformer
from tests.encoders.families.test_rotary import LO, LT

from . import architectures
from .oracle import VARIANTS, Dense

LENGTHS = (3, LO, LO + 1, 2 * LO + 3, LT, LT + 5)
TEXTS = [tiny.text(n) for n in LENGTHS]
TOLERANCE = 2e-5

Oracle = Callable[[str], np.ndarray]


class NotFollowed(Exception):
    """The oracle itself is not the base on short texts, so that it says nothing about the architecture."""


def check(name: str, folder: Path, labels: list[str] | None = None) -> Counter[str]:
    """Compare every cell of one architecture; how many ended in which way.

    Args:
        name: one of `architectures.names()`.
        folder: empty.
        labels: only these of `VARIANTS` (and pcw).

    Raises:
        NotClaimed, NotBuilt, NotFollowed: if there is nothing to compare.
        AssertionError: naming the cells that are off.
    """
    family = architectures.family(name)
    base = architectures.build(name, folder)
    if family is Relative:
        with torch.no_grad():
            for parameter, weight in base.named_parameters():
                if "relative_attention_bias" in parameter:
                    weight.normal_(0, 2)
                elif parameter.endswith((".q.weight", ".k.weight", ".v.weight", ".o.weight")):
                    weight.normal_(0, 0.2)
    capped = getattr(base[0].model.config, "attn_logit_softcapping", None) is not None
    found = (True, torch.float64) if family in (Absolute, Relative, RoFormer) else layout(base, capped)
    ended: Counter[str] = Counter()
    off: list[str] = []
    for label in labels or [*VARIANTS, "pcw"]:
        key, params = VARIANTS.get(label, ("pcw", {}))
        params = (
            {**params, "logn": False} if capped or (key == "none" and family is Absolute) else dict(params)
        )
        target = LO if key == "none" and family is Absolute else LT
        if key == "ntk" and family is Absolute:
            params["sigma"] = test_absolute.SIGMA
        logn = params.get("logn", key != "pcw")
        oracle = oracle_of(family, base, label, found, logn)
        if oracle is None:
            continue
        try:
            got = mteb_longembed.extend(base, key, target, LO, **params).encode(TEXTS)
        except LongEmbedError:
            ended["refused"] += 1
            continue
        gaps = {
            n: float(np.abs(one - oracle(text)).max())
            for n, text, one in zip(LENGTHS, TEXTS, got, strict=True)
        }
        if max(gaps.values()) < TOLERANCE:
            ended["equal"] += 1
        else:
            off.append(f"{name} x {label}: " + ", ".join(f"{n} tokens {gap:.0e}" for n, gap in gaps.items()))
    assert not off, "; ".join(off)
    return ended


def layout(base: SentenceTransformer, capped: bool) -> tuple[bool, torch.dtype]:
    """Whether pairs are neighbours, and what the oracle runs in: what makes it the base on a short text."""
    want = base.encode(TEXTS[1])
    problem = ""
    for neighbours, dtype in itertools.product((False, True), (torch.float64, torch.float32)):
        try:
            got = Dense(base, "none", neighbours, not capped, dtype).encode(TEXTS[1]).numpy()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        if np.abs(got - want).max() < TOLERANCE:
            return neighbours, dtype
    raise NotFollowed(problem or "another attention")


def oracle_of(
    family: type, base: SentenceTransformer, label: str, found: tuple[bool, torch.dtype], logn: bool
) -> Oracle | None:
    """The oracle of a cell; None where the strategy's variant has none for this family."""
    key, _ = VARIANTS.get(label, ("pcw", {}))
    if not family.fits(mteb_longembed.encoders.strategies.STRATEGIES[key]):
        return None
    if key == "pcw":
        return lambda text: windows(base, text)
    if family in (Absolute, Relative, RoFormer):
        # these oracles know the defaults
        if label != key:
            return None
        if family is Absolute:
            return lambda text: test_absolute.oracle(base, key, text, logn)
        if family is Relative:
            return lambda text: test_relative.oracle(base, key, text, logn)
        return lambda text: test_roformer.oracle(base, key, text)
    dense = Dense(base, label, found[0], logn, found[1])
    return lambda text: dense.encode(text).numpy()


def windows(base: SentenceTransformer, text: str) -> np.ndarray:
    """Each window through the base alone, pooled, then averaged."""
    ids = base.tokenizer(text, truncation=True, max_length=LT)["input_ids"]
    content, room = ids[1:-1], LO - 2
    pooled = []
    for start in range(0, len(content), room):
        chunk = content[min(start, max(len(content) - room, 0)) :][:room]
        window = torch.tensor([[ids[0], *chunk, ids[-1]]])
        with torch.no_grad():
            features = base[0]({"input_ids": window, "attention_mask": torch.ones_like(window)})
            pooled.append(base[1](features)["sentence_embedding"])
    return torch.nn.functional.normalize(torch.stack(pooled).mean(0), dim=1)[0].numpy()
