"""Codes of vectors: how an index stores a vector in fewer bytes, and reads it back.

| precision | bytes for a vector of `d` numbers | what is stored |
|---|---:|---|
| `fp32` | `4 d` | the vector |
| `int8` | `d + 4` | each number in steps of a 127th of the vector's largest one, and the step |
| `4bit` | `d / 2 + 4` | the buckets of the numbers of the direction to the mean of all vectors, and the distance |
"""

import logging
from collections.abc import Mapping
from typing import Protocol, Self

import numpy as np

from mteb_longembed.encoders.whitening import unit
from mteb_longembed.values import Precision

_LOGGER = logging.getLogger(__name__)

#: Seed of the rotation and of the sample of `4bit`.
_SEED = 0
#: Numbers from which the borders of its buckets are taken.
_SAMPLE = 200_000
_BUCKETS = 16
#: The share of the first vectors that the range leaves out, and the share and number of later ones outside that are too
#: many.
_TAIL, _MUCH, _SEVERAL = 0.01, 0.1, 30


class Watch:
    """Whether later vectors lie outside the range of the vectors that a codec was fitted on.

    Args:
        fitted: what was fitted, and `was` or `were`.
    """

    def __init__(self, fitted: str) -> None:
        self._fitted = fitted
        self._limit = np.inf
        self._n = 0
        self._n_outside = 0
        self._is_on = False
        self._has_warned = False

    def fit(self, distances: np.ndarray) -> None:
        """Take the range from the first vectors, by a distance of each."""
        self._limit = float(np.quantile(distances, 1 - _TAIL))

    def start(self) -> None:
        """Count from now on: the first documents are complete."""
        self._is_on = True

    def see(self, distances: np.ndarray) -> None:
        """Count vectors, and warn once if too many lie outside."""
        if not self._is_on:
            return
        self._n += len(distances)
        self._n_outside += int((distances > self._limit).sum())
        if self._has_warned or self._n_outside < max(_MUCH * self._n, _SEVERAL):
            return
        self._has_warned = True
        _LOGGER.warning(
            "%s fitted on the first documents, and %.0f %% of the vectors added since lie outside the range of those: "
            "build the index again, with all documents.",
            self._fitted,
            100 * self._n_outside / self._n,
        )

    def state(self) -> np.ndarray:
        """Return the range and the counts."""
        return np.array([self._limit, self._n, self._n_outside])

    def restore(self, state: np.ndarray) -> None:
        """Take over the range and the counts."""
        self._limit = float(state[0])
        self._n, self._n_outside = int(state[1]), int(state[2])
        self.start()


class Codec(Protocol):
    """How vectors are stored."""

    precision: Precision

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called, or need not be."""

    def fit(self, rows: np.ndarray) -> None:
        """Choose the parameters by the first vectors `[n, d]`. They stay."""

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return the codes of vectors `[n, d]`, one row each."""

    def complete(self) -> None:
        """Take note that the first documents are encoded: further ones may differ from them."""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors of codes, turned as by `turn`, float32 `[n, d]`."""

    def turn(self, rows: np.ndarray) -> np.ndarray:
        """Rotate vectors `[n, d]` as `decode` does, so that products with decoded vectors stay."""

    def turn_back(self, rows: np.ndarray) -> np.ndarray:
        """Undo `turn`."""

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted parameters by name."""

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over the parameters that `state` returned."""


class Exact:
    """Vectors as they are, in fp32."""

    precision: Precision = "fp32"
    is_fitted = True

    def fit(self, rows: np.ndarray) -> None:
        """Do nothing."""

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors in fp32."""
        return np.ascontiguousarray(rows, np.float32)

    def complete(self) -> None:
        """Do nothing."""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors, without a copy."""
        return codes

    def turn(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors as they are."""
        return rows

    turn_back = turn

    def state(self) -> dict[str, np.ndarray]:
        """Return nothing: there are no parameters."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Return the codec."""
        return self


class EightBits(Exact):
    """Each number of a vector in 255 steps, by the vector's own largest number."""

    precision: Precision = "int8"

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return uint8 `[n, d + 4]`: the numbers, and the size of a step in fp32."""
        steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-30).astype(np.float32) / 127
        numbers = np.rint(rows / steps).astype(np.int8)
        return np.concatenate([numbers.view(np.uint8), steps.view(np.uint8)], axis=1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors, float32 `[n, d]`."""
        rows = codes[:, :-4].view(np.int8).astype(np.float32)
        rows *= _last_number(codes)
        return rows


class FourBits(Exact):
    """The direction of a vector from the mean of all vectors, in 16 buckets for each number, and its distance.

    The direction is turned by a random rotation, after which the numbers of all dimensions have one distribution. The
    buckets have equal shares of it, and are read back as their means.

    Source: a random rotation before scalar quantisation as in RaBitQ (Gao and Long 2024, arXiv:2405.12497), which has
        one bit and uniform codes. With the mean, models whose cosines are all high keep their order
        (experiments/speed.md).
    """

    precision: Precision = "4bit"

    def __init__(self) -> None:
        self._mean = np.zeros(0, np.float32)
        self._rotation = np.zeros((0, 0), np.float32)
        self._borders = np.zeros(0, np.float32)
        self._levels = np.zeros(0, np.float32)
        self._watch = Watch("the 4-bit codes of the index were")

    @property
    def is_fitted(self) -> bool:  # type: ignore[override]
        """Whether the rotation and the buckets are chosen."""
        return len(self._levels) > 0

    def fit(self, rows: np.ndarray) -> None:
        """Choose the rotation and the buckets by the first vectors `[n, d]`, with a fixed seed."""
        rng = np.random.default_rng(_SEED)
        rows = np.asarray(rows, np.float32)
        self._mean = rows.mean(axis=0)
        self._rotation = np.linalg.qr(rng.standard_normal((rows.shape[1],) * 2))[0].astype(np.float32)
        most = max(_SAMPLE // rows.shape[1], 1)
        sampled = rows if len(rows) <= most else rows[rng.choice(len(rows), most, replace=False)]
        self._watch.fit(np.linalg.norm(sampled - self._mean, axis=1))
        numbers = np.sort((unit(sampled - self._mean) @ self._rotation.T).ravel())
        buckets = np.array_split(numbers, _BUCKETS)
        self._borders = np.array([bucket[0] for bucket in buckets[1:]], np.float32)
        self._levels = np.array([bucket.mean() for bucket in buckets], np.float32)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return uint8 `[n, ceil(d / 2) + 4]`: two buckets in a byte, and the factor of the levels in fp32."""
        rest = np.asarray(rows, np.float32) - self._mean
        distances = np.linalg.norm(rest, axis=1, keepdims=True)
        self._watch.see(distances)
        turned = rest @ self._rotation.T / np.maximum(distances, 1e-30)
        buckets = np.searchsorted(self._borders, turned, side="right").astype(np.uint8)
        read = np.linalg.norm(self._levels[buckets], axis=1, keepdims=True)
        factors = (distances / np.maximum(read, 1e-30)).astype(np.float32)
        if buckets.shape[1] % 2:
            buckets = np.pad(buckets, ((0, 0), (0, 1)))
        pairs = buckets[:, ::2] | buckets[:, 1::2] << 4
        return np.concatenate([pairs, factors.view(np.uint8)], axis=1)

    def complete(self) -> None:
        """Watch from now on whether vectors lie outside the range of the first ones."""
        self._watch.start()

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Return the vectors turned by the rotation, float32 `[n, d]`."""
        pairs = np.arange(256)
        levels = np.stack([self._levels[pairs & 15], self._levels[pairs >> 4]], axis=1)
        # both numbers of a byte are taken as one of 8 bytes, which is nine times as fast
        both = np.take(levels.view(np.float64)[:, 0], codes[:, :-4])
        rows = both.view(np.float32)[:, : len(self._mean)]
        rows *= _last_number(codes)
        rows += self._mean @ self._rotation.T
        return rows

    def turn(self, rows: np.ndarray) -> np.ndarray:
        """Rotate vectors `[n, d]`."""
        return np.asarray(rows @ self._rotation.T)

    def turn_back(self, rows: np.ndarray) -> np.ndarray:
        """Undo the rotation of vectors `[n, d]`."""
        return np.asarray(rows @ self._rotation)

    def state(self) -> dict[str, np.ndarray]:
        """Return the mean, the rotation, the buckets, and what is watched."""
        return {
            "mean": self._mean,
            "rotation": self._rotation,
            "borders": self._borders,
            "levels": self._levels,
            "watch": self._watch.state(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over the mean, the rotation and the buckets."""
        self._mean = np.array(state["mean"])
        self._rotation = np.array(state["rotation"])
        self._borders = np.array(state["borders"])
        self._levels = np.array(state["levels"])
        self._watch.restore(state["watch"])
        return self


#: The codec of each precision.
CODECS: dict[Precision, type[Exact]] = {"fp32": Exact, "int8": EightBits, "4bit": FourBits}


def _last_number(codes: np.ndarray) -> np.ndarray:
    """Return the fp32 number in the last four bytes of each row, `[n, 1]`."""
    return np.ascontiguousarray(codes[:, -4:]).view(np.float32)


def bytes_of(precision: Precision, width: int) -> int:
    """Return the bytes of a stored vector of `width` numbers.

    >>> [bytes_of(precision, 384) for precision in ("fp32", "int8", "4bit")]
    [1536, 388, 196]
    """
    return {"fp32": 4 * width, "int8": width + 4, "4bit": width // 2 + 4}[precision]
