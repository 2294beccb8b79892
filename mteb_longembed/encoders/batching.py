"""Texts -> arrays: batches by tokens, halved if memory is short, one pass for several heads."""

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
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import CapacityError, InputError, NumberError

from .attention import holding
from .devices import on_host, to_device, tokens_at_once
from .embedding_cache import EmbeddingCache, how_it_runs
from .identity import NamedModel
from .tokens import Ids, estimated_tokens
from .vectors import BOUNDS, Features

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


class Encoder(NamedModel):
    """A model that the engine runs."""

    #: Whether a document has several vectors.
    has_several_vectors: bool = False
    #: The feature that holds the vectors.
    output: str = "sentence_embedding"

    def collect(self, features: Features, device: torch.device) -> list[Tensor]:
        """Return one array for each document of a batch, on a device, from the features after the last module."""
        rows = features[self.output].to(device)
        if not self.has_several_vectors:
            return list(rows)
        # copied, so that the batch's padding does not stay in memory
        kept = [mask.nonzero()[:, 0] for mask in features["attention_mask"].cpu()]
        return [row[to_device(indices, device)] for row, indices in zip(rows, kept, strict=True)]


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device.

    Args:
        models: one model, or several with the same backbone, which pool the same pass.
        prompt: the prompt before each text.
        batch_size: maximum number of texts that run together.
        kwargs: keywords of the modules' `forward`.
        device: the device that the models run on. None: the device they are on.
        to_host: whether arrays are moved to the host.
    """

    models: Sequence[Encoder]
    prompt: str | None
    batch_size: int
    kwargs: Mapping[str, object]
    device: str | torch.device | None = None
    to_host: bool = True

    def __post_init__(self) -> None:
        self.backbone = self.models[0].backbone
        self._device = self.models[0]._resolve_inference_device(self.device)
        for model in self.models:
            model.eval()
        #: the device of the arrays
        self._target = torch.device("cpu") if self.to_host else self._device
        #: largest batch to try, in tokens; lowered when memory runs out
        self._limit = math.inf
        self._cache: EmbeddingCache | None = None
        self._owners: list[object] = []

    def keep_in(self, cache: EmbeddingCache | None) -> None:
        """Read arrays from an embedding cache and add new ones to it, if the models' names hold."""
        if cache is not None:
            self._owners = [model.cache_key() for model in self.models]
            if None not in self._owners:
                self._cache = cache

    def encode(self, texts: Sequence[str], *, show: bool) -> dict[str, list[Tensor]]:
        """Encode each text into one finite array per model. The longest texts run first.

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
        expected = {text: estimated_tokens(text, self.backbone.kept_len) for text in texts}
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
                self._keep(of_text, rows)
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
        """Run one forward pass; return for each text the array of each model."""
        features = self.backbone.features_of(ids, self.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self._device)
        if len(self.models) == 1:
            # through __call__, so that model.compile() has an effect
            features = self.models[0](features, **self.kwargs)
            return [[array] for array in self.models[0].collect(features, self._target)]
        tokens = self.backbone(features)
        arrays = []
        for model in self.models:
            features = dict(tokens)
            for module in list(model)[1:]:
                accepted = module.forward_kwargs if isinstance(module, Module) else set()
                kwargs = {key: self.kwargs[key] for key in self.kwargs if key in accepted}
                features = module(features, **kwargs)
            arrays.append(model.collect(features, self._target))
        return [list(of_text) for of_text in zip(*arrays, strict=True)]

    # ---- the embedding cache ----------------------------------------------------------------------------------

    def _keys(self, text: str) -> list[bytes]:
        """Return the key of a text's cache row for each model."""
        how = how_it_runs(self._device), sorted(self.kwargs.items()), self.prompt, text
        contents = [repr((owner, *how)).encode("utf-8", "surrogatepass") for owner in self._owners]
        return [hashlib.blake2b(content, digest_size=32).digest() for content in contents]

    def kept(self, texts: Sequence[str]) -> set[str]:
        """Return the texts that `encode` would read from the cache. Nothing is read or encoded."""
        if self._cache is None:
            return set()
        keys = {text: self._keys(text) for text in texts}
        known = self._cache.known(list(chain.from_iterable(keys.values())))
        return {text for text, of_text in keys.items() if known.issuperset(of_text)}

    def _cached(self, texts: Sequence[str]) -> dict[str, list[Tensor]]:
        """Return the cached arrays of texts; a text counts if the arrays of all models are there."""
        if self._cache is None:
            return {}
        keys = {text: self._keys(text) for text in texts}
        rows = self._cache.get_many(list(chain.from_iterable(keys.values())))
        known: dict[str, list[Tensor]] = {}
        for text, of_text in keys.items():
            if all(key in rows for key in of_text):
                known[text] = []
                for model, key in zip(self.models, of_text, strict=True):
                    array = torch.from_numpy(rows[key].copy()).to(self._target)
                    if not model.has_several_vectors:
                        array = array[0]
                    known[text].append(array)
        self._cache.counts.rows_read += len(known)
        return known

    def _keep(self, arrays_of: Mapping[str, list[Tensor]], rows: Mapping[str, Ids]) -> None:
        """Put the arrays of a pass into the cache; raise NumberError if one is not finite."""
        # the host waits once for all of them
        finite = torch.stack([array.isfinite().all() for array in chain.from_iterable(arrays_of.values())])
        if not finite.all():
            text = list(rows)[int(finite.int().argmin()) // len(self.models)]
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
