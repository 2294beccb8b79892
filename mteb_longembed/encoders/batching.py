"""Texts -> arrays: batches by tokens, halved if memory is short, one pass for several poolings."""

import functools
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
import torch
from sentence_transformers.base.modules import Module
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import CapacityError, InputError, NumberError

from .attention import holding
from .devices import on_host, to_device, tokens_at_once
from .embedding_cache import EmbeddingCache, how_it_runs
from .identity import NamedModel
from .pooling import Pooling
from .tokens import Ids, estimated_tokens
from .vectors import BOUNDS, arrays_of

#: Texts that are tokenised together.
_AT_ONCE = 2048
#: The largest share of padding in a batch; a batch of less than a sixth of the tokens of a full one may have any.
_WASTE = 0.1
_SMALL = 6
#: The error messages of allocators: CUDA and MPS, their libraries, Triton, torch on CPUs, C++.
_NO_MEMORY = re.compile(
    r"out of memory|(can't|cannot|failed to) allocate|bad_?alloc|alloc_cpu|alloc_failed|out of resource", re.I
)


def plan(lengths: Sequence[int], tokens: int, batch_size: int) -> list[list[int]]:
    """Plan batches of document indices, the longest documents first. A document of over `tokens` tokens runs alone.

    >>> plan([3, 9, 3, 8], tokens=20, batch_size=8)
    [[1, 3], [2, 0]]
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    widest = real = 0
    for i in np.argsort(lengths, kind="stable")[::-1].tolist():
        padded = (len(batch) + 1) * widest
        is_full = len(batch) >= batch_size or padded > tokens
        if not batch or is_full or padded > max(tokens // _SMALL, (1 + _WASTE) * (real + lengths[i])):
            batch = []
            batches.append(batch)
            widest = lengths[i]
            real = 0
        batch.append(i)
        real += lengths[i]
    return batches


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception reports that memory ran out, from any allocator."""
    # Triton's errors are plain exceptions
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None


class Bar(Protocol):
    """A progress bar of tokens."""

    def update(self, n: float) -> object:
        """Advance the bar by `n` tokens."""


#: The progress bar of a run with many calls.
_RUN_BAR: ContextVar[Bar | None] = ContextVar("_RUN_BAR", default=None)
#: Inside this context, calls of `encode` advance this bar by their expected tokens instead of showing their own.
shared_bar = functools.partial(holding, _RUN_BAR)


def _bar(total: int, *, show: bool) -> AbstractContextManager[Bar]:
    run_bar = _RUN_BAR.get()
    if run_bar is not None:
        return nullcontext(run_bar)
    # shown without a terminal too
    return tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, smoothing=0, disable=not show)


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device.

    Args:
        model: the model.
        prompt: the prompt before each text.
        batch_size: maximum number of texts that run together.
        kwargs: keywords of the modules' `forward`.
        poolings: the poolings of each pass of the backbone. None: the model's own.
        device: the device that the model runs on. None: the device it is on.
        to_host: whether arrays are moved to the host.
    """

    model: NamedModel
    prompt: str | None
    batch_size: int
    kwargs: Mapping[str, object]
    poolings: Sequence[Pooling] | None = None
    device: str | torch.device | None = None
    to_host: bool = True

    def __post_init__(self) -> None:
        self.backbone = self.model.backbone
        self._device = self.model._resolve_inference_device(self.device)
        self.model.eval()
        #: the modules after the backbone, and whether a text has several vectors, by pooling
        self._modules = [nn.Sequential(*list(self.model)[1:])]
        self._several = [self.model.has_several_vectors]
        if self.poolings is not None:
            modules = [nn.Sequential(*one.modules(cuts=self.backbone.cuts)) for one in self.poolings]
            # the backbone always returns fp32
            self._modules = [one.to(self._device, torch.float32).eval() for one in modules]
            own = self.model.has_several_vectors
            self._several = [own or one.vectors is not None for one in self.poolings]
        #: the device of the arrays
        self._target = torch.device("cpu") if self.to_host else self._device
        #: largest batch to try, in tokens; lowered when memory runs out
        self._limit = math.inf
        self._cache: EmbeddingCache | None = None
        self._owners: list[object] = []

    def use_cache(self, cache: EmbeddingCache | None) -> None:
        """Read arrays from an embedding cache and add new ones to it, if the model's name holds."""
        owners = None if cache is None else self.model.cache_keys(self._modules)
        if owners is not None:
            self._cache, self._owners = cache, owners

    def encode(self, texts: Sequence[str], *, show: bool) -> dict[str, list[Tensor]]:
        """Encode each text into one finite array per pooling. The longest texts run first.

        Raises:
            InputError: if an input is not a text.
            CapacityError: if a text does not fit into memory even alone.
            NumberError: if a number is not finite.
        """
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(
                    f"all inputs of one call must be texts if the first one is, got a {type(text).__name__} at "
                    f"index {index}."
                )
        expected = {text: estimated_tokens(text, self.backbone.max_input_len) for text in texts}
        done: dict[str, list[Tensor]] = {}
        order = sorted(expected, key=len, reverse=True)
        # the bar of a run counts only what runs, so that its remaining time leaves out what a cache has
        is_of_run = _RUN_BAR.get() is not None
        with _bar(sum(expected.values()), show=show) as bar:
            for start in range(0, len(order), _AT_ONCE):
                for number, part in enumerate(self._encode(order[start : start + _AT_ONCE])):
                    done.update(part)
                    if number or not is_of_run:  # the first part is what the cache has
                        bar.update(sum(expected[text] for text in part))
        return done

    def _encode(self, texts: Sequence[str]) -> Iterator[dict[str, list[Tensor]]]:
        cached = self._cached(texts)
        yield cached
        missing = [text for text in texts if text not in cached]
        if not missing:
            return
        ids = self.backbone.token_ids(missing, self.prompt, **self.kwargs)
        assert ids is not None  # an engine is made only for texts that it can tokenise
        for batch in plan([len(row) for row in ids], tokens_at_once(self._device), self.batch_size):
            yield from self._run({missing[n]: ids[n] for n in batch})

    def _run(self, rows: Mapping[str, Ids]) -> Iterator[dict[str, list[Tensor]]]:
        """Yield the arrays of a batch of texts with their ids: at once, or in smaller batches if memory is short."""
        ids = list(rows.values())
        total = len(ids) * max(map(len, ids))
        if len(ids) == 1 or total <= self._limit:
            try:
                arrays = self._forward(ids)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                # kept as a string, so that the exception's frames are freed before memory is allocated again
                failure = str(error) or type(error).__name__
            else:
                of_text = dict(zip(rows, arrays, strict=True))
                self._store(of_text, rows)
                yield of_text
                return
            torch.cuda.empty_cache()  # nothing without CUDA
            if len(ids) == 1:
                raise CapacityError(
                    f"a document of {len(ids[0])} tokens does not fit into memory even alone "
                    f"({' '.join(failure.split())[:120]}); use a shorter target length, half precision (dtype=bf16) "
                    "or a larger device; with an embedding cache (mteb runs), the documents finished before are kept."
                )
            self._limit = total / 2
        texts = list(rows)
        middle = (len(texts) + 1) // 2
        for half in (texts[:middle], texts[middle:]):
            yield from self._run({text: rows[text] for text in half})

    def _forward(self, ids: Sequence[Ids]) -> list[list[Tensor]]:
        """Run one forward pass; return for each text the array of each pooling."""
        features = self.backbone.features_of(ids, self.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self._device)
        if self.poolings is None:
            # through __call__, so that model.compile() has an effect
            features = self.model(features, **self.kwargs)
            return [[array] for array in arrays_of(features, self._target, several=self._several[0])]
        tokens = self.backbone(features)
        arrays = []
        for modules, several in zip(self._modules, self._several, strict=True):
            features = dict(tokens)
            for module in modules:
                accepted = module.forward_kwargs if isinstance(module, Module) else set()
                kwargs = {key: self.kwargs[key] for key in self.kwargs if key in accepted}
                features = module(features, **kwargs)
            arrays.append(arrays_of(features, self._target, several=several))
        return [list(of_text) for of_text in zip(*arrays, strict=True)]

    # ---- the embedding cache ----------------------------------------------------------------------------------

    def _keys(self, text: str) -> list[bytes]:
        """Return the key of a text's cache row for each pooling."""
        how = how_it_runs(self._device), sorted(self.kwargs.items()), self.prompt, text
        contents = [repr((owner, *how)).encode("utf-8", "surrogatepass") for owner in self._owners]
        return [hashlib.blake2b(content, digest_size=32).digest() for content in contents]

    def cached_texts(self, texts: Sequence[str]) -> set[str]:
        """Return the texts that `encode` would read from the cache. Nothing is read or encoded."""
        if self._cache is None:
            return set()
        keys = {text: self._keys(text) for text in texts}
        known = self._cache.known(list(chain.from_iterable(keys.values())))
        return {text for text, of_text in keys.items() if known.issuperset(of_text)}

    def _cached(self, texts: Sequence[str]) -> dict[str, list[Tensor]]:
        """Return the cached arrays of texts; a text counts if the arrays of all poolings are there."""
        if self._cache is None:
            return {}
        keys = {text: self._keys(text) for text in texts}
        rows = self._cache.get_many(list(chain.from_iterable(keys.values())))
        known: dict[str, list[Tensor]] = {}
        for text, of_text in keys.items():
            if all(key in rows for key in of_text):
                known[text] = []
                for several, key in zip(self._several, of_text, strict=True):
                    array = torch.from_numpy(rows[key].copy()).to(self._target)
                    if not several:
                        array = array[0]
                    known[text].append(array)
        self._cache.counts.rows_read += len(known)
        return known

    def _store(self, arrays_of: Mapping[str, list[Tensor]], rows: Mapping[str, Ids]) -> None:
        """Put the arrays of a pass into the cache; raise NumberError if one is not finite."""
        # the host waits once for all of them
        finite = torch.stack([array.isfinite().all() for array in chain.from_iterable(arrays_of.values())])
        if not finite.all():
            text = list(rows)[int(finite.int().argmin()) // len(self._modules)]
            start = text[:40].encode("unicode_escape", "backslashreplace").decode()
            raise NumberError(
                f"an embedding must be finite, but the embedding of a document ({len(rows[text])} tokens, starting "
                f"with '{start}') is not, so no result is written: the model's weights or its extension overflow on "
                "it; half precision may overflow where dtype=fp32 does not."
            )
        if self._cache is None:
            return
        kept: dict[bytes, np.ndarray] = {}
        for text, arrays in arrays_of.items():
            for key, array in zip(self._keys(text), arrays, strict=True):
                kept[key] = on_host(array)
        self._cache.put_many(kept)
        self._cache.counts.rows_encoded += len(arrays_of)
        self._cache.counts.tokens_encoded += sum(map(len, rows.values()))
