"""The engine: runs the texts of one call through a model in batches by tokens, and yields the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders import features as names
from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.features import Features, Ids, to_device
from mteb_longembed.encoders.modules.transformer import LongTransformer
from mteb_longembed.encoders.store import EmbeddingStore
from mteb_longembed.errors import NumberError

from .batching import Budget, Runner, divide, estimated_tokens, plan
from .keys import row_keys
from .progress import TokenBar
from .settings import EncodeSettings
from .siblings import Sibling, pooled_by, siblings_of
from .truncation import TruncationStats, warn_once

#: By model and device: the cost of a batch that did not fit into memory once, which no later call tries again.
MEMORY_LIMITS: WeakKeyDictionary[BuiltModel, dict[str, float]] = WeakKeyDictionary()


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device, with a model in evaluation mode. Finished rows are kept in the store."""

    model: BuiltModel
    device: torch.device
    settings: EncodeSettings
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        model = self.model
        self.row_keys = None
        self.siblings: list[Sibling] = []
        if self.store is not None:
            self.row_keys = row_keys(model, self.device, self.settings.form, self.settings.forward_kwargs)
        if self.row_keys is not None:
            self.siblings = siblings_of(model, self.device, self.settings)
        self.budget = Budget.of(model.first, self.device.type, self.settings.batch_size)
        self._limits = MEMORY_LIMITS.setdefault(model, {})
        limit = self._limits.get(str(self.device), float("inf"))
        self.runner = Runner(self._forward, self.budget.cost, limit)

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first: the indices of some texts, and the finite array of each.

        Arrays are on the host if the settings ask for it, otherwise on the device.
        """
        for indices, ids in self._batches(texts, show=show):
            for rows, arrays in self._run_batch(indices, ids, texts):
                yield [indices[i] for i in rows], arrays

    def _batches(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Ids]]]:
        """Indices and ids of the texts of each batch. They depend only on texts and settings."""
        first = self.model.first
        longest = first.longest
        expected = [min(estimated_tokens(text), longest) for text in texts]
        self.truncation = TruncationStats()
        with TokenBar(sum(expected), show=show) as self._bar:
            bar = self._bar
            for indices in divide(texts, longest, self.budget.tokens):
                block = [texts[i] for i in indices]
                ids = first.token_ids(block, self.settings.prompt, **self.settings.forward_kwargs)
                assert ids is not None  # other calls never reach the engine
                bar.correct(sum(map(len, ids)) - sum(expected[i] for i in indices))
                self.truncation.add(block, ids, longest)
                warn_once(self.model, self.truncation, longest)
                for batch in plan([len(row) for row in ids], self.budget):
                    rows = [ids[i] for i in batch]
                    yield [indices[i] for i in batch], rows
                    bar.update(sum(map(len, rows)))

    def _run_batch(
        self, indices: list[int], ids: list[Ids], texts: list[str]
    ) -> Iterator[tuple[list[int], list[Tensor]]]:
        """The arrays of a batch, by their places in it. New ones are stored.

        First come those that the store has, then the others in as few pieces as memory allows.
        """
        keys = []
        stored = {}
        if self.store is not None and self.row_keys is not None:
            keys = self.row_keys(ids, self.settings.prompt)
            stored = self.store.get_many(keys)
        known = [i for i, key in enumerate(keys) if key in stored]
        missing = sorted(set(range(len(ids))) - set(known))
        self._bar.skip(sum(len(ids[i]) for i in known))
        if known:
            yield known, [self._placed(torch.from_numpy(stored[keys[i]])) for i in known]
        new: dict[bytes, np.ndarray] = {}
        waiting = iter(missing)
        for size, features in self.runner([ids[i] for i in missing]) if missing else ():
            rows = list(islice(waiting, size))
            arrays = self.settings.collect(features)
            for place in not_finite(arrays):
                self._refuse(indices[rows[place]], ids[rows[place]], texts)
            if self.store is not None and keys:
                # numpy has no bfloat16
                new.update({keys[i]: _as_numpy(array) for i, array in zip(rows, arrays, strict=True)})
                for sibling, pooled in zip(self.siblings, features.get(names.SIBLINGS, ()), strict=True):
                    sibling.put(self.store, [ids[i] for i in rows], pooled)
            yield rows, [self._placed(array) for array in arrays]
        self._limits[str(self.device)] = self.runner.limit
        if self.store is not None:
            # the whole batch at once: after a kill the store has all of it or nothing
            if new:
                self.store.put_many(list(new), list(new.values()))
            self.store.counts.add([len(ids[i]) for i in missing], [len(ids[i]) for i in known])

    def _placed(self, array: Tensor) -> Tensor:
        """An array where the settings ask for it."""
        if self.settings.to_host:
            return array.cpu()
        return array.to(self.device)

    def _forward(self, ids: Sequence[Ids]) -> Features:
        features = self._content_teller.features_of(ids, self.settings.prompt)
        for key, value in features.items():
            # the host cuts the windows
            if isinstance(value, Tensor) and key != names.WINDOW_PREFIX:
                features[key] = to_device(value, self.device)
        features[names.DOCUMENT_LENGTHS] = tuple(map(len, ids))
        kwargs = self.settings.forward_kwargs
        if not self.siblings:
            # by __call__, so that model.compile() has an effect
            alone: Features = self.model(features, **kwargs)
            return alone
        # one pass of the transformer, pooled by the model and by each sibling
        tokens: Features = self._content_teller.run(features)
        result = pooled_by(self.model, tokens, kwargs)
        result[names.SIBLINGS] = []
        for sibling in self.siblings:
            pooled = pooled_by(sibling.model, tokens, kwargs)
            result[names.SIBLINGS].append(sibling.settings.collect(pooled))
        return result

    @property
    def _content_teller(self) -> LongTransformer:
        """The first module whose features tell content, if that of the model or a sibling does."""
        firsts = [self.model.first, *(sibling.model.first for sibling in self.siblings)]
        return next((first for first in firsts if first.tells_content), self.model.first)

    def _refuse(self, index: int, ids: Ids, texts: list[str]) -> None:
        """Raise NumberError for a document whose embedding is not finite."""
        inner = self.model.first.model
        start = texts[index][:40].encode("unicode_escape", "backslashreplace").decode()
        remedy = "the model's weights or its extension overflow on it"
        if any(p.dtype in (torch.float16, torch.bfloat16) for p in inner.parameters()):
            remedy = "half precision may overflow where dtype=fp32 does not"
        raise NumberError(
            f"an embedding must be finite, but that of document {index} ({len(ids)} tokens, starting with '{start}') "
            f"is not, so no result is written: {remedy}."
        )


def not_finite(arrays: Sequence[Tensor]) -> list[int]:
    """The places of arrays that hold NaN or infinity. The host waits once for all of them."""
    finite = torch.stack([torch.isfinite(array).all() for array in arrays])
    return [place for place, fine in enumerate(finite.tolist()) if not fine]


def _as_numpy(array: Tensor) -> np.ndarray:
    if array.dtype == torch.bfloat16:
        array = array.float()
    return array.cpu().numpy()
