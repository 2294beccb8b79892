"""The engine: runs the texts of one call through a trunk in batches by tokens, and pools each pass by several heads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.encoders.features import BOUNDS, Features, Ids, to_device
from mteb_longembed.encoders.text.drawing import estimated_tokens
from mteb_longembed.errors import NumberError

from .batches import Budget, Runner, divide, plan
from .keys import RowKeys, row_keys
from .progress import TokenBar
from .store import EmbeddingStore

logger = logging.getLogger(__name__)
#: The models for which the warning of texts that are mostly cut was logged.
_WARNED: WeakSet[Any] = WeakSet()


@dataclass(frozen=True)
class EncodeSettings:
    """The prompt, how many texts may run together, and which arrays are returned, on the host or where they are.

    `forward_kwargs` go to the modules' `forward`. The store keeps the arrays of each form separately.
    """

    prompt: str | None = None
    batch_size: int = 32
    forward_kwargs: Mapping[str, object] = field(default_factory=dict)
    form: Literal["sentence_embeddings", "tokens", "vectors"] = "sentence_embeddings"
    to_host: bool = False

    def collect(self, features: Features) -> list[Tensor]:
        """One array for each document of a batch, from the features after the last module.

        Several vectors are copied, so the padding of the batch does not stay in memory.
        """
        if self.form == "sentence_embeddings":
            return list(features["sentence_embedding"])
        rows = features["token_embeddings"]
        masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
        real = [to_device(mask.nonzero()[:, 0], rows.device) for mask in masks]
        return [row[indices] for row, indices in zip(rows, real, strict=True)]


@dataclass(frozen=True, eq=False)
class KeptToo:
    """A model whose head pools the same pass, and the keys of its rows, which the store keeps."""

    model: Any
    keys: RowKeys
    settings: EncodeSettings

    def collect(self, tokens: Features) -> list[Tensor]:
        """One array for each document, from what the trunk gave, which stays as it is."""
        return self.settings.collect(pooled(self.model, tokens, self.settings.forward_kwargs))

    def put(self, store: EmbeddingStore, ids: Sequence[Ids], arrays: Sequence[Tensor]) -> None:
        """Keep the rows of these texts. One that is not finite is left to the model's own call."""
        kept: dict[bytes, np.ndarray] = {}
        for key, array in zip(self.keys(ids, self.settings.prompt), arrays, strict=True):
            numbers = _as_numpy(array)
            if np.isfinite(numbers).all():
                kept[key] = numbers
        store.put_many(list(kept), list(kept.values()))


def pooled(model: Any, tokens: Features, kwargs: Mapping[str, object]) -> Features:
    """The features after a model's last module, from what its trunk gave."""
    features = dict(tokens)
    for module in list(model)[1:]:
        accepted = getattr(module, "forward_kwargs", ())
        given = {key: value for key, value in kwargs.items() if key in accepted}
        features = module(features, **given)
    return features


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device, with a model in evaluation mode. Finished rows are kept in the store.

    Args:
        model: one of ours.
        device: where it runs.
        settings: of the call.
        store: where finished rows are. None: they are not kept.
    """

    model: Any
    device: torch.device
    settings: EncodeSettings
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        model = self.model
        self.row_keys = None
        #: The other heads of the pass.
        self.kept_too: list[KeptToo] = []
        if self.store is not None:
            self.row_keys = row_keys(model, self.device, self.settings.form, self.settings.forward_kwargs)
        if self.row_keys is not None:
            self.kept_too = [kept for other in model.also if (kept := self._kept_too(other)) is not None]
        self.budget = Budget.of(model.trunk, self.device.type, self.settings.batch_size)
        self.runner = Runner(self._forward, self.budget.cost)

    def _kept_too(self, other: Any) -> KeptToo | None:
        """Another head of this pass. None if it has another trunk, or its rows no keys."""
        if other.trunk is not self.model.trunk or other.head.key() == self.model.head.key():
            return None
        settings = replace(
            self.settings, form="vectors" if other.has_several_vectors else "sentence_embeddings"
        )
        keys = row_keys(other, self.device, settings.form, settings.forward_kwargs)
        if keys is None:
            return None
        return KeptToo(other, keys, settings)

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first: the indices of some texts, and the finite array of each.

        Arrays are on the host if the settings ask for it, otherwise on the device.
        """
        for indices, ids in self._batches(texts, show=show):
            for rows, arrays in self._run_batch(indices, ids, texts):
                yield [indices[i] for i in rows], arrays

    def _batches(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Ids]]]:
        """Indices and ids of the texts of each batch. They depend only on texts and settings."""
        trunk = self.model.trunk
        kept_len = trunk.kept_len
        expected = [min(estimated_tokens(text), kept_len) for text in texts]
        with TokenBar(sum(expected), show=show) as self._bar:
            bar = self._bar
            for indices in divide(texts, kept_len, self.budget.tokens):
                block = [texts[i] for i in indices]
                ids = trunk.token_ids(block, self.settings.prompt, **self.settings.forward_kwargs)
                assert ids is not None  # other calls never reach the engine
                bar.correct(sum(map(len, ids)) - sum(expected[i] for i in indices))
                self._warn_of_cuts(block, ids, kept_len)
                for batch in plan([len(row) for row in ids], self.budget):
                    rows = [ids[i] for i in batch]
                    yield [indices[i] for i in batch], rows
                    bar.update(sum(map(len, rows)))

    def _warn_of_cuts(self, texts: Sequence[str], ids: Sequence[Ids], kept_len: int) -> None:
        """Log a warning, once for each model, if more than half of a text is cut away."""
        if self.model in _WARNED:
            return
        mostly_cut = 0
        for text, row in zip(texts, ids, strict=True):
            mostly_cut += len(row) >= kept_len and estimated_tokens(text) > 2 * len(row)
        if mostly_cut:
            _WARNED.add(self.model)
            logger.warning(
                "%s of %s texts lose more than half of their length, because the model reads only the first %s tokens; "
                "an extended model reads more (this warning appears once; logger %s).",
                f"{mostly_cut:,}",
                f"{len(texts):,}",
                f"{kept_len:,}",
                __name__,
            )

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
        for size, (arrays, others) in self.runner([ids[i] for i in missing]) if missing else ():
            rows = list(islice(waiting, size))
            for place in not_finite(arrays):
                self._refuse(indices[rows[place]], ids[rows[place]], texts)
            if self.store is not None and keys:
                new.update({keys[i]: _as_numpy(array) for i, array in zip(rows, arrays, strict=True)})
                for kept, own in zip(self.kept_too, others, strict=True):
                    kept.put(self.store, [ids[i] for i in rows], own)
            yield rows, [self._placed(array) for array in arrays]
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

    def _forward(self, ids: Sequence[Ids]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """One pass: the arrays of the call, and those of each other head."""
        trunk = self.model.trunk
        features = trunk.features_of(ids, self.settings.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self.device)
        kwargs = self.settings.forward_kwargs
        if not self.kept_too:
            # by __call__, so that model.compile() has an effect
            return self.settings.collect(self.model(features, **kwargs)), []
        tokens: Features = trunk(features)
        arrays = self.settings.collect(pooled(self.model, tokens, kwargs))
        return arrays, [kept.collect(tokens) for kept in self.kept_too]

    def _refuse(self, index: int, ids: Ids, texts: list[str]) -> None:
        """Raise NumberError for a document whose embedding is not finite."""
        inner = self.model.trunk.model
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
    """An array on the host, for numpy, which has no bfloat16."""
    if array.dtype == torch.bfloat16:
        array = array.float()
    return array.cpu().numpy()
