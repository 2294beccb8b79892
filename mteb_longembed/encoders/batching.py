"""Texts -> arrays: batches by tokens, halved where memory is short, one pass for several heads."""

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import CapacityError, NumberError

from .self_extend import to_device
from .store import EmbeddingStore, how_it_runs, key_of
from .tokens import Ids, estimated_tokens
from .vectors import BOUNDS, Features

logger = logging.getLogger(__name__)
#: Tokens of a batch, padding included, by kind of device. On a CPU a thousand are enough for fast matrix products, and
#: longer documents run alone, without padding or mask. Other devices need larger batches.
TOKENS = {"cpu": 4096}
TOKENS_ELSEWHERE = 65_536
#: A block of texts, which is tokenised at once, has about the tokens of this many batches.
_BATCHES = 64
#: The largest share of padding in a batch; smaller batches than this many tokens may have any.
_WASTE = 0.1
_SMALL = {"cpu": 256}
_SMALL_ELSEWHERE = 8192
#: The error messages of allocators: CUDA and MPS, their libraries, Triton, torch on CPUs, C++, oneDNN.
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|bad_?alloc|alloc_cpu|"
    r"could not create a (memory|primitive)|failed to allocate|STATUS_ALLOC_FAILED|out of resource",
    re.IGNORECASE,
)
#: The models for which the warning of texts that are mostly cut was logged.
_WARNED: WeakSet[Any] = WeakSet()


def plan(lengths: Sequence[int], tokens: int, batch_size: int, small: int = 256) -> list[list[int]]:
    """Batches of document indices, the longest documents first. A document of more than `tokens` runs by itself.

    >>> plan([3, 9, 3, 8], tokens=20, batch_size=8)
    [[1, 3], [2, 0]]
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    widest = real = 0
    for i in np.argsort(lengths, kind="stable")[::-1].tolist():
        padded = (len(batch) + 1) * widest
        is_full = len(batch) >= batch_size or padded > tokens
        if not batch or is_full or padded > max(small, (1 + _WASTE) * (real + lengths[i])):
            batch = []
            batches.append(batch)
            widest = lengths[i]
            real = 0
        batch.append(i)
        real += lengths[i]
    return batches


def blocks(expected: Mapping[str, int], block_tokens: int) -> list[list[str]]:
    """Texts with their expected tokens in blocks of about so many tokens, the longest texts first."""
    found: list[list[str]] = []
    room = 0  # tokens that the last block may still get
    for text in sorted(expected, key=len, reverse=True):
        if room <= 0:
            room = block_tokens
            found.append([])
        found[-1].append(text)
        room -= expected[text]
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, whichever allocator raised it."""
    # Triton's errors are plain exceptions
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None


# ---- progress -------------------------------------------------------------------------------------------------

#: The bar of a run with many calls. Calls inside it show no bar of their own but advance this one.
_RUN_BAR: ContextVar[tqdm | None] = ContextVar("_RUN_BAR", default=None)


@contextmanager
def shared_bar(bar: tqdm) -> Iterator[None]:
    """Calls of `encode` inside show no bar of their own but advance this one, by their expected tokens."""
    token = _RUN_BAR.set(bar)
    try:
        yield
    finally:
        _RUN_BAR.reset(token)


def no_bar() -> AbstractContextManager[None]:
    """What is encoded inside is no part of a run's tokens, so it does not advance its bar."""
    return shared_bar(tqdm(disable=True))


def _bar(total: int, *, show: bool) -> Any:
    """A bar of tokens, which also shows without a terminal; inside `shared_bar` it is that bar."""
    run_bar = _RUN_BAR.get()
    if run_bar is not None:
        return nullcontext(run_bar)
    return tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, smoothing=0, disable=not show)


# ---- the engine -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Engine:
    """One call on one device, with models in evaluation mode that share their first module.

    Args:
        models: one, or several with other modules behind the first one, which each pool the same pass.
        device: where they are.
        prompt: before each text.
        batch_size: how many texts may run together at most.
        kwargs: for the modules' `forward`.
        of_tokens: whether the embeddings of tokens are asked for, and not those of texts.
        to_host: whether arrays go to the host.
        store: keeps arrays. None for no store.
    """

    models: Sequence[Any]
    device: torch.device
    prompt: str | None
    batch_size: int
    kwargs: Mapping[str, object]
    of_tokens: bool = False
    to_host: bool = True
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        self.trunk = self.models[0].trunk
        #: no batch of more tokens is tried; it falls when memory runs out
        self._limit = math.inf
        self._owners: list[object] = []
        if self.store is not None:
            self._owners = [model.row_owner() for model in self.models]
        if None in self._owners:
            self.store = None

    def encode(self, texts: Sequence[str], *, show: bool) -> dict[str, list[Tensor]]:
        """Each text, and for each model its array, with finite numbers. The longest texts run first."""
        expected = {text: estimated_tokens(text, self.trunk.kept_len) for text in texts}
        kind = self.device.type
        tokens = TOKENS.get(kind, TOKENS_ELSEWHERE)
        done: dict[str, list[Tensor]] = {}
        with _bar(sum(expected.values()), show=show) as bar:
            for block in blocks(expected, tokens * _BATCHES):
                done.update(self._stored(block))
                bar.update(sum(expected[text] for text in block if text in done))
                missing = [text for text in block if text not in done]
                if not missing:
                    continue
                ids = self.trunk.token_ids(missing, self.prompt, **self.kwargs)
                self._warn_of_cuts(missing, ids)
                lengths = [len(row) for row in ids]
                small = _SMALL.get(kind, _SMALL_ELSEWHERE)
                for batch in plan(lengths, tokens, self.batch_size, small):
                    for part in self._run({missing[n]: ids[n] for n in batch}):
                        done.update(part)
                        bar.update(sum(expected[text] for text in part))
        return done

    def _run(self, rows: Mapping[str, Ids]) -> Iterator[dict[str, list[Tensor]]]:
        """The arrays of a batch of texts with their ids: in one piece, or in several if memory is short."""
        ids = list(rows.values())
        total = len(ids) * max(map(len, ids))
        if len(ids) == 1 or total <= self._limit:
            failure = None
            try:
                # kept in a variable, so that the exception's frames are freed before memory is allocated again
                arrays = self._forward(ids)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failure = str(error) or type(error).__name__
            if failure is None:
                found = dict(zip(rows, arrays, strict=True))
                self._keep(found, rows)
                yield found
                return
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if len(ids) == 1:
                raise CapacityError(
                    f"a document of {len(ids[0])} tokens does not fit into memory even alone "
                    f"({' '.join(failure.split())[:120]}); use a shorter target length, half precision (dtype=bf16) "
                    "or a larger device; with a store (mteb runs), the documents finished before are kept."
                )
            self._limit = total / 2
        texts = list(rows)
        middle = (len(texts) + 1) // 2
        for half in (texts[:middle], texts[middle:]):
            yield from self._run({text: rows[text] for text in half})

    def _forward(self, ids: Sequence[Ids]) -> list[list[Tensor]]:
        """One pass: for each text the array of each model."""
        features = self.trunk.features_of(ids, self.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self.device)
        if len(self.models) == 1:
            # by __call__, so that model.compile() has an effect
            arrays = [self._collect(self.models[0], self.models[0](features, **self.kwargs))]
        else:
            tokens = self.trunk(features)
            arrays = [self._collect(model, model.behind(tokens, **self.kwargs)) for model in self.models]
        return [list(of_text) for of_text in zip(*arrays, strict=True)]

    def _collect(self, model: Any, features: Features) -> list[Tensor]:
        """One array for each document of a batch, from the features after the last module."""
        if not (self.of_tokens or model.has_several_vectors):
            return list(self._placed(features["sentence_embedding"]))
        rows = zip(features["token_embeddings"], features["attention_mask"].sum(1).tolist(), strict=True)
        # copied, so that the padding of the batch does not stay in memory
        return [self._placed(row[:n].clone()) for row, n in rows]

    def _placed(self, array: Tensor) -> Tensor:
        return array.cpu() if self.to_host else array

    # ---- the store --------------------------------------------------------------------------------------------

    def _keys(self, text: str) -> list[bytes]:
        """The key of a text's row of each model."""
        how = how_it_runs(self.device), sorted(self.kwargs.items()), self.prompt, text
        return [key_of(owner, *how) for owner in self._owners]

    def _stored(self, texts: Sequence[str]) -> dict[str, list[Tensor]]:
        """Those texts of which the store has the arrays of all models, and these."""
        if self.store is None:
            return {}
        keys = {text: self._keys(text) for text in texts}
        rows = self.store.get_many([key for of_text in keys.values() for key in of_text])
        known: dict[str, list[Tensor]] = {}
        for text, of_text in keys.items():
            if all(key in rows for key in of_text):
                known[text] = []
                for model, key in zip(self.models, of_text, strict=True):
                    array = torch.from_numpy(rows[key].copy())
                    if not model.has_several_vectors:
                        array = array[0]
                    known[text].append(array if self.to_host else array.to(self.device))
        self.store.counts.rows_read += len(known)
        return known

    def _keep(self, found: Mapping[str, list[Tensor]], rows: Mapping[str, Ids]) -> None:
        """Give the arrays of a pass to the store.

        Raises:
            NumberError: if one is not finite.
        """
        # the host waits once for all of them
        finite = torch.stack([torch.isfinite(array).all() for arrays in found.values() for array in arrays])
        if not finite.all():
            place = int(finite.int().argmin()) // len(self.models)
            text = list(rows)[place]
            self._refuse(text, len(rows[text]))
        if self.store is None:
            return
        kept: dict[bytes, np.ndarray] = {}
        for text, arrays in found.items():
            for key, array in zip(self._keys(text), arrays, strict=True):
                kept[key] = np.atleast_2d(array.float().cpu().numpy())
        self.store.put_many(kept)
        self.store.counts.rows_encoded += len(found)
        self.store.counts.tokens_encoded += sum(map(len, rows.values()))

    def _refuse(self, text: str, n_tokens: int) -> None:
        """Raise NumberError for a document whose embedding is not finite."""
        start = text[:40].encode("unicode_escape", "backslashreplace").decode()
        remedy = "the model's weights or its extension overflow on it"
        if self.trunk.model.dtype in (torch.float16, torch.bfloat16):
            remedy = "half precision may overflow where dtype=fp32 does not"
        raise NumberError(
            f"an embedding must be finite, but that of a document ({n_tokens} tokens, starting with '{start}') is not, "
            f"so no result is written: {remedy}."
        )

    def _warn_of_cuts(self, texts: Sequence[str], ids: Sequence[Ids]) -> None:
        """Log a warning, once for each model, if more than half of a text is cut away."""
        kept_len = self.trunk.kept_len
        cut = [text for text, row in zip(texts, ids, strict=True) if len(row) >= kept_len]
        n_cut = sum(estimated_tokens(text) > 2 * kept_len for text in cut)
        if n_cut and self.models[0] not in _WARNED:
            _WARNED.add(self.models[0])
            logger.warning(
                "%s of %s texts lose more than half of their length, because the model reads only the first %s tokens; "
                "an extended model reads more (this warning appears once; logger %s).",
                f"{n_cut:,}",
                f"{len(texts):,}",
                f"{kept_len:,}",
                __name__,
            )
