"""The engine: runs the texts of one call through a model in batches by tokens, and yields the results."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders import features as names
from mteb_longembed.encoders.attention.devices import head_width, to_device, why_padded
from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.features import Features, Ids
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import NumberError

from .batching import Budget, delayed, divide, estimated_tokens, plan, tokenised_blocks
from .keys import row_keys
from .progress import TokenBar
from .running import AHEAD, Results, Runner, in_fp32, measured_tokens
from .settings import DEFAULT_BATCH, EncodeSettings
from .siblings import Sibling, pooled_by, siblings_of
from .truncation import TruncationStats, truncation_of, warn_once

logger = logging.getLogger(__name__)

#: By model and device: the cost of a batch that did not fit into memory once, which no later call tries again.
MEMORY_LIMITS: WeakKeyDictionary[BuiltModel, dict[str, float]] = WeakKeyDictionary()
#: By model and device: the tokens of a batch that fit into memory.
_MEASURED: WeakKeyDictionary[BuiltModel, dict[str, int]] = WeakKeyDictionary()


@dataclass(eq=False)
class _Batch:
    """A running batch: the arrays from the store, and the pieces that run."""

    indices: list[int]
    ids: list[Ids]
    keys: list[bytes]
    stored: dict[bytes, np.ndarray]
    #: Rows that run together, their arrays, and those of the siblings.
    pieces: list[tuple[list[int], Results, list[list[Tensor]]]]


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device, with a model in evaluation mode.

    Args:
        model: in evaluation mode.
        device: where it runs.
        settings: of this call.
        store: where finished rows are kept. None: nowhere.
    """

    model: BuiltModel
    device: torch.device
    settings: EncodeSettings
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        model = self.model
        device = self.device
        settings = self.settings
        self.truncation = TruncationStats()
        form = settings.form
        kwargs = settings.forward_kwargs
        self.row_keys = None
        if self.store is not None:
            self.row_keys = row_keys(model, device, form, kwargs)
        self.siblings: list[Sibling] = []
        if self.store is not None and self.row_keys is not None:
            self.siblings = siblings_of(model, device, settings)
        self._limits = MEMORY_LIMITS.setdefault(model, {})
        tokens = self._measured()
        batch_size = settings.batch_size
        if tokens and batch_size >= DEFAULT_BATCH and model.first.packs_on(device):
            batch_size = tokens  # packed short texts: only memory limits them
        self.budget = Budget.of(model.first, device.type, batch_size, tokens)
        inner = model.first.model
        width = head_width(inner.config.get_text_config())
        reason = why_padded(device, next(inner.parameters()).dtype, width) or ""
        if str(device) not in self._limits and model.first.family.packs and ":dtype=bf16" in reason:
            logger.info("%s: %s.", device, reason)  # at the first call
        self.runner = Runner(self._forward, self.budget.cost, self._limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first: the indices of some texts, and the finite array of each, on its device."""
        started = (self._start(indices, ids) for indices, ids in self._batches(texts, show=show))
        for batch in delayed(started, AHEAD if self.device.type == "cuda" else 0):
            yield from self._finish(batch, texts)

    def _batches(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Ids]]]:
        """Indices and ids of the texts of each batch. They depend only on texts and settings."""
        first = self.model.first
        max_len = first.longest
        expected = [estimated_tokens(text, max_len) for text in texts]
        blocks = divide(texts, max_len, self.budget.tokens)

        def tokenise(part: list[str]) -> list[Ids]:
            ids = first.token_ids(part, self.settings.prompt, **self.settings.forward_kwargs)
            assert ids is not None  # other calls never reach the engine
            return ids

        self.truncation = TruncationStats()
        with TokenBar(sum(expected), show=show) as self._bar:
            bar = self._bar
            for indices, ids in tokenised_blocks(texts, blocks, tokenise):
                bar.correct(sum(map(len, ids)) - sum(expected[i] for i in indices))
                self.truncation.add(truncation_of(first, [texts[i] for i in indices], ids, tokenise))
                warn_once(self.model, self.truncation, max_len)
                for batch in plan([len(row) for row in ids], self.budget):
                    rows = [ids[i] for i in batch]
                    yield [indices[i] for i in batch], rows
                    bar.update(sum(map(len, rows)))

    def _start(self, indices: list[int], ids: list[Ids]) -> _Batch:
        """Read the results that the store has, and run the other texts in one piece (several if memory is short)."""
        if self.row_keys is None:
            keys = []
        else:
            keys = self.row_keys(ids, self.settings.prompt)
        stored = {}
        if self.store is not None and keys:
            stored = self.store.get_many(keys)
        missing = [i for i in range(len(ids)) if not keys or keys[i] not in stored]
        self._bar.skip(sum(map(len, ids)) - sum(len(ids[i]) for i in missing))
        pieces = []
        waiting = iter(missing)
        for size, features in self.runner([ids[i] for i in missing]) if missing else ():
            rows = list(islice(waiting, size))
            arrays = self.settings.collect(features)
            results = Results(arrays, fetch=self.settings.to_host or bool(keys))
            pieces.append((rows, results, features.get(names.SIBLINGS, [])))
        self._limits[str(self.device)] = self.runner.limit
        return _Batch(indices, ids, keys, stored, pieces)

    def _finish(self, batch: _Batch, texts: list[str]) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Yield the arrays of a batch and store them. Texts whose arrays are not finite run again first."""
        indices = batch.indices
        ids = batch.ids
        keys = batch.keys
        if self.settings.to_host:
            device = torch.device("cpu")
        else:
            device = self.device
        known = [i for i, key in enumerate(keys) if key in batch.stored]
        if known:
            arrays = [torch.from_numpy(batch.stored[keys[i]]).to(device) for i in known]
            yield [indices[i] for i in known], arrays
        new: dict[bytes, np.ndarray] = {}
        for rows, results, of_siblings in batch.pieces:
            arrays, not_finite = results.read()
            for bad in not_finite:
                features = self._retry_fp32(indices[rows[bad]], ids[rows[bad]], texts)
                arrays[bad] = self.settings.collect(features)[0].to(arrays[bad].device, arrays[bad].dtype)
            if keys:
                # numpy has no bfloat16
                numbers = (array.float() if array.dtype == torch.bfloat16 else array for array in arrays)
                new.update((keys[i], array.cpu().numpy()) for i, array in zip(rows, numbers, strict=True))
            if self.store is not None:
                for sibling, other_arrays in zip(self.siblings, of_siblings, strict=True):
                    sibling.put(self.store, [ids[i] for i in rows], other_arrays)
            yield [indices[i] for i in rows], [array.to(device) for array in arrays]
        if self.store is not None:
            # the whole batch at once: after a kill the store has all of it or nothing
            if new:
                self.store.put_many(list(new), list(new.values()))
            ran = [len(ids[i]) for rows, _, _ in batch.pieces for i in rows]
            self.store.counts.add(ran, [len(ids[i]) for i in known])

    def _forward(self, ids: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(ids, self.settings.prompt)
        for key, value in features.items():
            # the host cuts the windows
            if isinstance(value, Tensor) and key not in (names.WINDOW_PREFIX, names.WINDOW_STARTS):
                features[key] = to_device(value, self.device)
        features[names.DOCUMENT_LENGTHS] = tuple(map(len, ids))
        if self.siblings:
            return self._forward_with_siblings(features)
        # by __call__, so that model.compile() has an effect
        result: Features = self.model(features, **self.settings.forward_kwargs)
        return result

    def _forward_with_siblings(self, features: Features) -> Features:
        """One pass of the transformer, pooled by the model and by each sibling."""
        kwargs = self.settings.forward_kwargs
        tokens: Features = self.model.first(features)
        result = pooled_by(self.model, tokens, kwargs)
        result[names.SIBLINGS] = [
            self.settings.collect(pooled_by(sibling.model, tokens, kwargs)) for sibling in self.siblings
        ]
        return result

    def _measured(self) -> int | None:
        """Tokens of a batch, measured once for a model and device. None on devices with a fixed budget."""
        if self.device.type != "cuda":
            return None
        measured = _MEASURED.setdefault(self.model, {})
        key = str(self.device)
        if key not in measured:
            token = self.model.first.token_ids(["a"])

            def run(count: int, n: int) -> None:
                row = np.resize(token[0] if token else np.zeros(1, np.int32), n)
                self.settings.collect(self._forward([row] * count))

            measured[key] = measured_tokens(run, self.model.first.longest, self.device)
        return measured[key]

    def _retry_fp32(self, index: int, ids: Ids, texts: list[str]) -> Features:
        """The features of one document in fp32, because half precision may overflow where fp32 does not."""
        inner = self.model.first.model
        is_half = any(p.dtype in (torch.float16, torch.bfloat16) for p in inner.parameters())
        if is_half:
            with in_fp32(inner):
                features = self._forward([ids])
            if not Results(self.settings.collect(features), fetch=False).read()[1]:
                return features
        start = texts[index][:40].encode("unicode_escape", "backslashreplace").decode()
        raise NumberError(
            f"the embedding of document {index} ({len(ids)} tokens, starting with '{start}') is not finite, computed "
            f"in fp32{' too' if is_half else ''}: the model's weights or its extension overflow on it, so no result is "
            "written."
        )
