"""A checksum over every bit of a tensor. It is cheap enough for every call of `encode`."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import torch
import xxhash
from torch import Tensor

#: How many words of 8 bytes one sum covers, and how many sums are computed at a time.
_WORDS = 1 << 16
_SUMS = 64


def checksum(tensor: Tensor) -> bytes:
    """16 bytes that change with any bit of a tensor, with its type and with its shape.

    Differs: on an accelerator the sums are computed there, so the checksum is not the one of a CPU.

    Raises:
        RuntimeError: if the tensor has no readable bytes (sparse and meta tensors).
    """
    tensor = tensor.detach()
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest_size=16)
    digest.update(xxhash.xxh3_128_digest(flat.numpy().data) if flat.device.type == "cpu" else sums(flat))
    return digest.digest()


def sums(flat: Tensor) -> bytes:
    """Sums over the 8-byte words of a uint8 tensor, computed on its device. The weight of a word depends on its place.

    The upper half of each word is first mixed into the lower half, because a product modulo 2^64 loses the highest
    bits.
    """
    words = -(-len(flat) // 8)
    rows = -(-words // _WORDS)
    found = []
    weights = _weights(flat.device)
    for start in range(0, rows, _SUMS):
        part = flat[8 * _WORDS * start : 8 * _WORDS * (start + _SUMS)]
        if missing := -len(part) % (8 * _WORDS) or part.storage_offset() % 8:
            part = torch.nn.functional.pad(part, (0, -len(part) % (8 * _WORDS) if missing else 0)).clone()
        word = part.view(torch.int64).view(-1, _WORDS)
        found.append((((word >> 32) ^ word) * weights).sum(1))
    return torch.cat(found).cpu().numpy().tobytes() if found else b""


@functools.cache
def _weights(device: torch.device) -> Tensor:
    """Odd pseudo-random numbers. A change of a single word always changes its sum."""
    drawn = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, _WORDS)
    return (torch.from_numpy(drawn) | 1).to(device)
