"""The keys of kept rows: everything that determines what the pooling gives of a text."""

import functools
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from mteb_longembed.encoders.checkpoints.base import Base
from mteb_longembed.encoders.checkpoints.identity import bits, content, state_of
from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.heads.head import stages
from mteb_longembed.encoders.heads.pooling import HeadPooling
from mteb_longembed.encoders.positions.strategies import ALGORITHM, code_of
from mteb_longembed.encoders.trunk import LongTransformer

_PLAIN = (str, int, float, bool, type(None))
#: Settings of torch's matrix products on CUDA devices.
_OF_MATMUL = ("fp32_precision", *(f"allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")))
#: Digests of a trunk without its table of positions, and of the table's rows: those that unchanged documents read, and
#: the others. Without a table there are none.
Contents = tuple[str, list[bytes], list[bytes]]
#: What `_contents` found, and for which state of a trunk.
_CONTENTS: WeakKeyDictionary[nn.Module, tuple[object, Contents]] = WeakKeyDictionary()


@dataclass(frozen=True)
class RowKeys:
    """Gives the keys of texts.

    Args:
        trunk: tokenises them.
        reads_content: whether rows depend on which tokens are a text's own.
        short: what all keys of texts begin with that the strategy leaves as they are.
        long: what those of the others begin with.
    """

    trunk: LongTransformer
    reads_content: bool
    short: bytes
    long: bytes

    def __call__(self, ids: Sequence[Ids], prompt: str | None) -> list[bytes]:
        """The key of each text with these token ids, which contain special tokens and the prompt."""
        trunk = self.trunk
        n_prompt = 0  # a pooling may leave out so many tokens
        if prompt:
            n_prompt = trunk._get_prompt_length(prompt) or 0
        found = []
        for row, bounds in zip(ids, trunk.bounds_of(ids, prompt).tolist(), strict=True):
            is_changed = bool(trunk.family.changes(len(row)))
            settings = [n_prompt]
            if self.reads_content or (trunk.cuts and is_changed):
                settings += bounds[1:]
            digest = hashlib.blake2b(self.long if is_changed else self.short, digest_size=32)
            digest.update(f"{settings} {len(row)}\n".encode())
            digest.update(np.ascontiguousarray(row, "<i4").tobytes())
            found.append(digest.digest())
        return found


def row_keys(model: Any, device: torch.device, kwargs: Mapping[str, object]) -> RowKeys | None:
    """What gives the keys of a call. None with one warning for a model whose rows nobody could find again.

    A row is found by weights and configuration of trunk and pooling, how they run, its token ids, and the strategy
    unless the strategy leaves this row as the base makes it. So all strategies of a base share its short rows, heads
    share rows if they differ behind the pooling, and a saved model finds those of the name that it was made of.
    """
    why = _why_no_key(model, kwargs)
    if why is not None:
        warnings.warn(f"the store of embeddings is off for this model: {why}.", RuntimeWarning, stacklevel=3)
        return None
    pooling, _ = stages(model)
    accepted = {name for module in pooling for name in getattr(module, "forward_kwargs", ())}
    given = sorted((name, value) for name, value in kwargs.items() if name in accepted)
    base = model.checkpoint.base
    more = (base.name, base.revision) if _has_more(base) else None
    trunk, rows, other_rows = _contents(model.trunk)
    of_head = [(_kind(module), content(module)) for module in pooling]
    short = key_of("pooled", ALGORITHM, trunk, rows, more, _how_it_runs(device), of_head, given)
    strategy = model.checkpoint.strategy
    kind = type(strategy)
    long = key_of(short, other_rows, kind.__qualname__ + code_of(kind), asdict(strategy))
    return RowKeys(model.trunk, model.head.vectors is not None, short, long)


def _contents(trunk: LongTransformer) -> Contents:
    """The contents of a trunk. All weights are read once, and again after a write that torch counts."""
    state = state_of(nn.Sequential(trunk))
    known = _CONTENTS.get(trunk)
    if known is not None and known[0] == state:
        return known[1]
    table = trunk.family.table_of(trunk.model)
    rows: list[bytes] = []
    if table is not None:
        rows = [bits(part) for part in table.tensor_split([trunk.family.n_plain_rows])]
    found = content(trunk, table), rows[:1], rows[1:]
    _CONTENTS[trunk] = state, found
    return found


def _kind(module: nn.Module) -> str:
    """The class of a module. Ours pools a text that is not cut like sentence-transformers' own."""
    return (Pooling if type(module) is HeadPooling else type(module)).__qualname__


def _has_more(base: Base) -> bool:
    """Whether weights and configuration do not say all of a base: its own code, or how strong an adapter is."""
    return base.runs_code or base.files.adapter_base is not None


def _why_no_key(model: Any, kwargs: Mapping[str, object]) -> str | None:
    """Why the rows of a call have no keys. None if they have."""
    if model.checkpoint is None or not model.rows_may_be_kept():
        return "it was changed after it was loaded"
    base = model.checkpoint.base
    if base.revision is None and _has_more(base):
        return "the commit of its files is not known"
    if not all(isinstance(value, _PLAIN) for value in kwargs.values()):
        return f"encode was given {', '.join(sorted(kwargs))}"
    return None


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


def key_of(*parts: object) -> bytes:
    """The key of what these parts determine."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()
