"""The keys of finished rows: everything that determines an embedding."""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Protocol

import numpy as np
import torch
from torch import nn

from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint
from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.positions.strategies import ALGORITHM, code_of
from mteb_longembed.encoders.trunk import LongTransformer

_PLAIN = (str, int, float, bool, type(None))
#: Settings of torch's matrix products on CUDA devices.
_OF_MATMUL = ("fp32_precision", *(f"allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")))
#: Gives the keys of rows with these token ids, which contain special tokens and the prompt.
RowKeys = Callable[[Sequence[Ids], str | None], list[bytes]]


class Keyed(Protocol):
    """A model whose rows may have keys."""

    checkpoint: Checkpoint | None

    @property
    def trunk(self) -> LongTransformer: ...

    @property
    def head(self) -> Head: ...

    def rows_may_be_kept(self) -> bool: ...

    def __iter__(self) -> Iterator[nn.Module]: ...


def row_keys(model: Keyed, device: torch.device, form: str, kwargs: Mapping[str, object]) -> RowKeys | None:
    """What gives the keys of a call. None with one warning for a model whose rows nobody could find again.

    A row is found by the base's revision, its compute type, how it runs, its token ids, the head, and the strategy
    unless the strategy leaves this row as the base makes it. So all strategies of a base share its short rows. `form`
    says which of the features after the last module are kept.
    """
    trunk = model.trunk
    head = model.head
    checkpoint = model.checkpoint
    why = _why_no_key(model, kwargs)
    if checkpoint is None or why is not None:
        warnings.warn(f"the store of embeddings is off for this model: {why}.", RuntimeWarning, stacklevel=3)
        return None
    strategy = checkpoint.strategy
    base = checkpoint.base
    # one repository may be a model of its own and an entry of the zoo, which adds what its files leave out
    source = (base.name, base.revision, repr(base.entry), checkpoint.spec.dtype or base.dtype)
    accepted = {name for module in model for name in getattr(module, "forward_kwargs", ())}
    given = sorted((name, value) for name, value in kwargs.items() if name in accepted)
    short = _digest("rows", ALGORITHM, source, _how_it_runs(device), head.key(), form, given)
    kind = type(strategy)
    long = _digest(short, kind.__qualname__ + code_of(kind), asdict(strategy))

    def keys(ids: Sequence[Ids], prompt: str | None) -> list[bytes]:
        n_prompt = 0  # a pooling may leave out so many tokens
        if prompt:
            n_prompt = trunk._get_prompt_length(prompt) or 0
        found = []
        for row, bounds in zip(ids, trunk.bounds_of(ids, prompt).tolist(), strict=True):
            is_changed = bool(trunk.family.changes(len(row)))
            settings = [n_prompt]
            if head.reads_content or (trunk.cuts and is_changed):
                settings += bounds[1:]
            found.append(_key(long if is_changed else short, settings, row))
        return found

    return keys


def _why_no_key(model: Keyed, kwargs: Mapping[str, object]) -> str | None:
    """Why the rows of a call have no keys. None if they have."""
    if model.checkpoint is None or not model.rows_may_be_kept():
        return "it was changed after it was loaded"
    if model.checkpoint.base.revision is None:
        return "the commit of its files is not known"
    if not all(isinstance(value, _PLAIN) for value in kwargs.values()):
        return f"encode was given {', '.join(sorted(kwargs))}"
    return None


def _key(start: bytes, settings: object, row: Ids) -> bytes:
    digest = hashlib.blake2b(start, digest_size=32)
    digest.update(f"{settings} {len(row)}\n".encode())
    digest.update(np.ascontiguousarray(row, "<i4").tobytes())
    return digest.digest()


def _how_it_runs(device: torch.device) -> object:
    """Versions, and the settings of torch that change the embeddings of the same weights."""
    return [
        device.type,
        str(torch.get_autocast_dtype(device.type)) if torch.is_autocast_enabled(device.type) else None,
        torch.get_float32_matmul_precision(),
        str(torch.get_default_dtype()),
        [str(getattr(torch.backends.cuda.matmul, name, None)) for name in _OF_MATMUL],
        _versions(),
    ]


@functools.cache  # each is read from a file
def _versions() -> list[str]:
    return [version(name) for name in ("torch", "transformers", "sentence-transformers")]


def _digest(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()
