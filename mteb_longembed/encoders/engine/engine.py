"""The engine: runs the texts of one call through a model in batches by tokens, and yields the results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders.attention.devices import head_width, path, to_device
from mteb_longembed.encoders.store.keys import row_keys
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import NumberError

from .batching import Budget, divide, estimated_tokens, plan, tokenised_blocks
from .reading import Reading, TokenBar, reading_of, warn_once
from .running import AHEAD, Features, Results, Runner, delayed, in_fp32, measured_tokens
from .tokenizing import Ids

if TYPE_CHECKING:
    from mteb_longembed.encoders.building import LongModel

logger = logging.getLogger(__name__)

#: sentence-transformers' default of `batch_size`. On a device that packs, it and larger ones do not limit a batch.
DEFAULT_BATCH = 32
#: The feature that gives a forward pass the pooling that follows, where nothing else needs token embeddings.
POOLING = "pooling"
#: The feature that gives a forward pass the number of tokens of each text, as a tuple, so that it need not count them.
DOCUMENT_LENGTHS = "document_lengths"


@dataclass(eq=False)
class _Started:
    """A running batch: what the store had (`found`, of which `joined` from windows), and the pieces that run."""

    places: list[int]
    rows: list[Ids]
    keys: list[bytes]
    found: dict[bytes, np.ndarray]
    joined: dict[bytes, np.ndarray]
    #: Indices of texts that run together, their arrays, and their pooled windows if they are kept.
    pieces: list[tuple[list[int], Results, Results | None]]


#: Takes the results from a batch's features: one array for each document.
Collect = Callable[[Features], list[Tensor]]


def sentence_embeddings(features: Features) -> list[Tensor]:
    """One vector for each document, as sentence-transformers' dense models give."""
    return list(features["sentence_embedding"])


class Engine:
    """One call of `encode` on one device, with a model in evaluation mode.

    `collect` takes one array for each document, of any shape, from the features after the model's last module. `form`
    names what it does: the store keeps the arrays of each form separately. `kwargs` go to the modules' `forward`.
    """

    def __init__(
        self,
        model: LongModel,
        device: torch.device,
        *,
        prompt: str | None = None,
        batch_size: int = DEFAULT_BATCH,
        store: EmbeddingStore | None = None,
        collect: Collect = sentence_embeddings,
        to_host: bool = False,
        form: str = "sentence_embedding",
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.prompt = prompt
        self.collect = collect
        self.to_host = to_host
        self.kwargs = kwargs or {}
        self.reading = Reading()
        self.store = store
        self.row_keys = None if store is None else row_keys(model, device, form, self.kwargs)
        # several models may join the same windows in different ways, as in `compare`: windows are encoded once
        self.shares_windows = (
            store is not None
            and store.keeps_windows
            and self.row_keys is not None
            and model.shares_windows
            and set(self.kwargs) <= {"task"}
        )
        # later calls do not try again what did not fit into memory once
        self._limits: dict[str, float] = model.__dict__.setdefault("_memory_limits", {})
        tokens = self._measured()
        if tokens and batch_size >= DEFAULT_BATCH and model.first.packs_on(device):
            batch_size = tokens  # packed short texts: only memory limits them
        self.budget = Budget.of(model.first, device.type, batch_size, tokens)
        logger.debug("%s: %s", device, path_of(model, device))
        _note_precision(model, device)
        self.runner = Runner(self._forward, self.budget.cost, self._limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first: the indices of some texts, and the finite array of each, on its device."""
        started = (self._start(places, rows) for places, rows in self._batches(texts, show=show))
        for batch in delayed(started, AHEAD if self.device.type == "cuda" else 0):
            yield from self._finish(batch, texts)

    def _batches(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Ids]]]:
        """Indices and ids of the texts of each batch. They depend only on texts and settings."""
        first = self.model.first
        max_len = first.longest
        expected = [estimated_tokens(text, max_len) for text in texts]
        blocks = divide(texts, max_len, self.budget.tokens)

        def tokenise(part: list[str]) -> list[Ids]:
            return cast("list[Ids]", first.token_ids(part, self.prompt, **self.kwargs))

        self.reading = Reading()
        with TokenBar(sum(expected), show=show) as bar:
            for places, ids in tokenised_blocks(texts, blocks, tokenise):
                bar.correct(sum(map(len, ids)) - sum(expected[i] for i in places))
                self.reading.add(reading_of(first.tokenizer, [texts[i] for i in places], ids, max_len))
                warn_once(self.model, self.reading, max_len)
                for batch in plan([len(row) for row in ids], self.budget):
                    rows = [ids[i] for i in batch]
                    yield [places[i] for i in batch], rows
                    bar.update(sum(map(len, rows)))

    def _start(self, places: list[int], rows: list[Ids]) -> _Started:
        """Read the results that the store has, and run the other texts in one piece (several if memory is short)."""
        keys = [] if self.row_keys is None else self.row_keys.keys(rows, self.prompt)
        found = self.store.get_many(keys) if self.store is not None and keys else {}
        joined = self._joined(rows, keys, found) if self.shares_windows else {}
        found = {**found, **joined}
        missing = [i for i in range(len(rows)) if not keys or keys[i] not in found]
        pieces = []
        for own, features in self._run(rows, missing):
            windows = features.pop("pooled_windows", None)
            kept = None if windows is None else Results(windows, fetch=True)
            pieces.append((own, Results(self.collect(features), fetch=self.to_host or bool(keys)), kept))
        return _Started(places, rows, keys, found, joined, pieces)

    def _finish(self, batch: _Started, texts: list[str]) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Yield the arrays of a batch and store them. Texts whose arrays are not finite run again first."""
        places, rows, keys = batch.places, batch.rows, batch.keys
        known = [i for i, key in enumerate(keys) if key in batch.found]
        if known:
            where = "cpu" if self.to_host else self.device
            yield (
                [places[i] for i in known],
                [torch.from_numpy(batch.found[keys[i]]).to(where) for i in known],
            )
        new = dict(batch.joined)
        for own, results, pooled in batch.pieces:
            arrays, not_finite_rows = results.read()
            for bad in not_finite_rows:
                again = self._again(places[own[bad]], rows[own[bad]], texts)
                arrays[bad] = self.collect(again)[0].to(arrays[bad].device, arrays[bad].dtype)
            if keys:
                new.update((keys[i], _numbers(array)) for i, array in zip(own, arrays, strict=True))
            if pooled is not None:
                window_keys = self._window_keys([rows[i] for i in own])
                windows, _ = pooled.read()
                new.update(
                    (k, _numbers(windows[i])) for i, k in window_keys.items() if i not in not_finite_rows
                )
            asked = arrays if self.to_host else [array.to(self.device) for array in arrays]
            yield [places[i] for i in own], asked
        if self.store is not None:
            # the whole batch at once: after a kill the store has all of it or nothing
            if new:
                self.store.put_many(list(new), list(new.values()))
            ran = [len(rows[i]) for own, *_ in batch.pieces for i in own]
            self.store.counts.add(ran, [len(rows[i]) for i in known])

    def _joined(
        self, rows: Sequence[Ids], keys: Sequence[bytes], found: Mapping[bytes, np.ndarray]
    ) -> dict[bytes, np.ndarray]:
        """Key and array of each document whose windows another model has encoded."""
        assert self.store is not None
        missing = [i for i, key in enumerate(keys) if key not in found]
        window_keys = self._window_keys([rows[i] for i in missing])
        stored = self.store.get_many(list(window_keys.values()))
        ready = {missing[i]: stored[key] for i, key in window_keys.items() if key in stored}
        if not ready:
            return {}
        windows = [torch.from_numpy(array).to(self.device) for array in ready.values()]
        arrays = self.collect(self.model.from_windows(windows, **self.kwargs))
        return {keys[i]: _numbers(array) for i, array in zip(ready, arrays, strict=True)}

    def _window_keys(self, rows: Sequence[Ids]) -> dict[int, bytes]:
        """The keys of the windows of those rows that are cut into windows."""
        assert self.row_keys is not None  # without keys no windows are shared
        cut = [i for i, row in enumerate(rows) if not self.model.first.family.leaves_unchanged(len(row))]
        keys = self.row_keys.window_keys([rows[i] for i in cut], self.prompt) if cut else []
        return dict(zip(cut, keys, strict=True))

    def _run(self, rows: list[Ids], wanted: list[int]) -> Iterator[tuple[list[int], Features]]:
        """The features of the wanted rows of a batch, and the indices of those that run together."""
        start = 0
        for size, features in self.runner([rows[i] for i in wanted]) if wanted else ():
            yield wanted[start : start + size], features
            start += size
        self._limits[str(self.device)] = self.runner.limit

    def _forward(self, rows: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(rows, self.prompt)
        for key, value in features.items():
            # the host cuts the windows
            if isinstance(value, Tensor) and key != "window_prefix":
                features[key] = to_device(value, self.device)
        features[DOCUMENT_LENGTHS] = tuple(map(len, rows))
        if self.shares_windows:
            features["keep_windows"] = True
        if self.collect is sentence_embeddings:
            features[POOLING] = self.model.pooling
        # by __call__, so that model.compile() has an effect
        return self.model(features, **self.kwargs)

    def _measured(self) -> int | None:
        """Tokens of a batch, measured once for a model and device. None on devices with a fixed budget."""
        if self.device.type != "cuda":
            return None
        known: dict[str, int] = self.model.__dict__.setdefault("_measured_tokens", {})
        key = str(self.device)
        if key not in known:
            token = self.model.first.token_ids(["a"], None)

            def run(count: int, n: int) -> None:
                row = np.resize(token[0] if token else np.zeros(1, np.int32), n)
                self.collect(self._forward([row] * count))

            known[key] = measured_tokens(run, self.model.first.longest, self.device)
        return known[key]

    def _again(self, place: int, ids: Ids, texts: list[str]) -> Features:
        """The features of one document in fp32, because half precision may overflow where fp32 does not."""
        inner = self.model.first.model
        half = any(p.dtype in (torch.float16, torch.bfloat16) for p in inner.parameters())
        if half:
            with in_fp32(inner):
                features = self._forward([ids])
            if not Results(self.collect(features), fetch=False).read()[1]:
                return features
        start = texts[place][:40].encode("unicode_escape", "backslashreplace").decode()
        raise NumberError(
            f"the embedding of document {place} ({len(ids)} tokens, starting with '{start}') is not finite, computed "
            f"in fp32{' too' if half else ''}: the model's weights or its extension overflow on it, so no result is "
            "written."
        )


def _note_precision(model: LongModel, device: torch.device) -> None:
    """Say once for each model what half precision is for on this device. A checkpoint in fp32 stays in fp32."""
    packed, full = path_of(model, device, torch.bfloat16), path_of(model, device)
    if full.startswith("float32") and ", packed" in packed and not model.__dict__.get("_told_of_precision"):
        model.__dict__["_told_of_precision"] = True
        logger.info(
            "%s: the model computes in float32, in padded batches; with :dtype=bf16 it runs packed with "
            "FlashAttention, and embeddings change by the rounding of bf16 (8 bits).",
            device,
        )


def engine_for(model: Any, device: torch.device, settings: Mapping[str, Any]) -> Any:
    """The engine for the texts of one call: on the model's cluster if it has one, otherwise in this process."""
    if model.cluster is None:
        return Engine(model, device, **settings)
    from .cluster import ClusterEngine, workers_of  # it imports this module

    return ClusterEngine(model, workers_of(model), **settings)


def path_of(model: LongModel, device: torch.device, dtype: torch.dtype | None = None) -> str:
    """One line that says how a model's documents run on a device, in its own number type or another."""
    dtype = dtype or next(model.first.model.parameters()).dtype
    line = path(
        device,
        dtype,
        head_width(model.first.config.get_text_config()),
        packs_documents=getattr(getattr(model.first, "family", None), "packs", False),
        planned="attention" in model.first.strategy.hooks(),
    )
    return f"{str(dtype).removeprefix('torch.')}, {line}"


def _numbers(array: Tensor) -> np.ndarray:
    # numpy has no bfloat16
    array = array.float() if array.dtype == torch.bfloat16 else array
    return array.cpu().numpy()
