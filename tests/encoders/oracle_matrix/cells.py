"""One architecture of the matrix: each strategy that fits against its oracle, in one batch of mixed lengths."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed
from mteb_longembed.encoders.positions import ABSOLUTE as Absolute
from mteb_longembed.encoders.positions import ROTARY as Rotary
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import LongEmbedError
from tests import tiny
from tests.encoders import test_absolute
from tests.encoders.test_rotary import LO, LT, through, windows

from . import architectures
from .oracle import DENSE, RELATIVE, VARIANTS, NotFollowed, Oracle

LENGTHS = (3, LO, LO + 1, 2 * LO + 3, LT, LT + 5)
TEXTS = [tiny.text(n) for n in LENGTHS]
TOLERANCE = 2e-5


@dataclass
class Outcome:
    """What became of one architecture's cells, by the strategy's label.

    `compared` has the largest difference from the oracle, `unknown` the cells for which no oracle is the stock model.
    """

    compared: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def check(name: str, folder: Path, labels: list[str] | None = None) -> Outcome:
    """Compare every cell of one architecture.

    Raises:
        NotClaimed, NotBuilt: if there is nothing to compare.
    """
    family = architectures.family(name)
    base = architectures.build(name, folder)
    outcome = Outcome()
    dtypes: dict[str, torch.dtype] = {}
    for label in labels or [*VARIANTS, "pcw"]:
        key, params, target = requested(label, family)
        # the oracles of the other families know the defaults
        if not family.fits(STRATEGIES[key]) or (family is not Rotary and label not in (key, "pcw")):
            continue
        try:
            got = mteb_longembed.extend(base, key, target, LO, **params).encode(TEXTS)
        except LongEmbedError:
            continue  # refused
        except Exception as error:
            outcome.failed[label] = in_short(error)
            continue
        try:
            exact = oracle_of(family, base, label, params.get("logn", key != "pcw"), dtypes)
            wanted = [exact(text) for text in TEXTS]
        except NotFollowed as error:
            outcome.unknown[label] = str(error)
            continue
        gaps = [float(np.abs(one - want).max()) for one, want in zip(got, wanted, strict=True)]
        if max(gaps) < TOLERANCE:  # which NaN is not
            outcome.compared[label] = max(gaps)
        else:
            shown = zip(LENGTHS, gaps, strict=True)
            outcome.failed[label] = ", ".join(f"{n} tokens {gap:.0e}" for n, gap in shown)
    return outcome


def requested(label: str, family: type) -> tuple[str, dict[str, Any], int]:
    """Strategy, parameters and target of a cell."""
    key, params = VARIANTS.get(label, ("pcw", {}))
    if family is Absolute and key == "none":
        return key, {"logn": False}, LO
    if family is Absolute and key == "ntk":
        return key, {**params, "sigma": test_absolute.SIGMA}, LT
    return key, dict(params), LT


def in_short(error: Exception) -> str:
    """An exception in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:160]


def oracle_of(family, base, label, logn, dtypes):
    """The oracle of a cell, after it was seen to be the stock model where nothing is extended.

    Raises:
        NotFollowed: if it is not.
    """
    if label == "pcw":
        return lambda text: windows(base, text)
    if family is Absolute:
        return lambda text: test_absolute.oracle(base, label, text, logn)
    plain = DENSE if label in RELATIVE else "none"
    if plain not in dtypes:
        dtypes[plain] = precision(base, plain)
    oracle = Oracle(base, label, logn, dtypes[plain])
    return lambda text: oracle.encode(text).numpy()


def precision(base: SentenceTransformer, plain: str) -> torch.dtype:
    """What the oracle runs in: what makes it the stock model, up to the trained length and beyond.

    Raises:
        NotFollowed: if nothing does.
    """
    problem = ""
    for dtype in (torch.float64, torch.float32):
        try:
            oracle = Oracle(base, plain, False, dtype)
            pairs = [(oracle.encode(text).numpy(), through(base, text)) for text in (TEXTS[1], TEXTS[3])]
            gap = max(float(np.abs(ours - theirs).max()) for ours, theirs in pairs)
        except Exception as error:
            problem = in_short(error)
            continue
        if gap < TOLERANCE / 4:
            return dtype
        problem = f"{gap:.0e} off the stock model"
    raise NotFollowed(problem)
