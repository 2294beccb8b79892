"""A checksum over every bit of a tensor, cheap enough for every call of `encode`."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import torch
import xxhash
from torch import Tensor

#: Words of 8 bytes that one sum covers, and sums made at a time.
_WORDS = 1 << 16
_SUMS = 64


def checksum(tensor: Tensor) -> bytes:
    """16 bytes that change with any bit of a tensor, with its type or its shape.

    Differs: on an accelerator the sums are made there, so the bytes are others than on a CPU.

    Raises:
        RuntimeError: if the tensor has no bytes to read (sparse and meta tensors).
    """
    tensor = tensor.detach()
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.blake2b(f"{tensor.dtype} {tuple(tensor.shape)}".encode(), digest_size=16)
    digest.update(xxhash.xxh3_128_digest(flat.numpy().data) if flat.device.type == "cpu" else sums(flat))
    return digest.digest()


def sums(flat: Tensor) -> bytes:
    """Sums over the 8-byte words of a uint8 tensor, each word weighted by its place, made on the tensor's device.

    The upper half of a word is folded into the lower one first: a product modulo 2^64 would lose the highest bits.
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
    """Odd numbers without a pattern: a change of a single word always changes its sum."""
    drawn = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, _WORDS)
    return (torch.from_numpy(drawn) | 1).to(device)
