"""The engine: runs the texts of one call through a trunk in batches by tokens, and pools each pass by several heads.

A store keeps what the poolings give. What is behind a pooling maps the vectors of each document on their own, so a row
that is read ends in the same bits as a new one.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn

from mteb_longembed.encoders.features import BOUNDS, Features, Ids, to_device
from mteb_longembed.encoders.heads.head import stages
from mteb_longembed.encoders.text.drawing import estimated_tokens
from mteb_longembed.encoders.token_batch import BATCH, TokenBatch, batch_of
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

    `forward_kwargs` go to the modules' `forward`. `by_row`: a text gets all rows of the last features, those of its
    tokens or of its vectors, and not one embedding.
    """

    prompt: str | None
    batch_size: int
    forward_kwargs: Mapping[str, object]
    by_row: bool
    to_host: bool

    def collect(self, features: Features) -> list[Tensor]:
        """One array for each document of a batch, from the features after the last module.

        Several vectors are copied, so the padding of the batch does not stay in memory.
        """
        if not self.by_row:
            return list(features["sentence_embedding"])
        rows = features["token_embeddings"]
        masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
        real = [to_device(mask.nonzero()[:, 0], rows.device) for mask in masks]
        return [row[indices] for row, indices in zip(rows, real, strict=True)]


class KeptHead:
    """A head of the pass: what the store keeps of a text, under which key, and what becomes of it."""

    def __init__(self, model: Any, keys: RowKeys, settings: EncodeSettings) -> None:
        self.keys = keys
        self._settings = settings
        self._pooling, self._behind = stages(model)

    def rows(self, tokens: Features) -> list[Tensor]:
        """What the pooling makes of each text, `[vectors, d]`, from what the trunk gave, which stays as it is."""
        features = self._run(self._pooling, tokens)
        vectors = features["sentence_embedding"]
        if vectors.dtype == torch.bfloat16:
            vectors = vectors.float()  # numpy has no bfloat16
        counts = batch_of(features if BATCH in features else tokens).vectors
        if counts is None:
            counts = torch.ones(len(vectors), dtype=torch.long)
        # copies: a part of the batch would keep all of it in memory, and may be added up in another order
        return [rows.clone() for rows in vectors.split(counts.tolist())]

    def finished(self, rows: Tensor) -> Tensor:
        """The array of a text, from what its pooling gave."""
        batch = TokenBatch(torch.zeros(1, 3), vectors=torch.tensor([len(rows)]))
        features = {"sentence_embedding": rows, "modality": "text", BATCH: batch}
        (array,) = self._settings.collect(self._run(self._behind, features))
        return array

    def _run(self, modules: Sequence[nn.Module], features: Features) -> Features:
        features = dict(features)
        for module in modules:
            accepted = getattr(module, "forward_kwargs", ())
            given = {key: value for key, value in self._settings.forward_kwargs.items() if key in accepted}
            features = module(features, **given)
        return features


@dataclass(eq=False)
class Engine:
    """One call of `encode` on one device, with a model in evaluation mode. Pooled rows are kept in the store."""

    model: Any
    device: torch.device
    settings: EncodeSettings
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        self.heads: list[KeptHead] = []
        if self.store is not None:
            self.heads = self._kept_heads()
        self.budget = Budget.of(self.model.trunk, self.device.type, self.settings.batch_size)
        self.runner = Runner(self._forward, self.budget.cost)

    def _kept_heads(self) -> list[KeptHead]:
        """The heads of the pass whose rows are kept, that of the call first. None if nobody could find its rows."""
        found: dict[RowKeys, Any] = {}
        for model in (self.model, *self.model.also):
            if model.trunk is self.model.trunk:
                keys = row_keys(model, self.device, self.settings.forward_kwargs)
                if keys is None:
                    break
                found.setdefault(keys, model)  # heads may differ only behind the pooling
        return [KeptHead(model, keys, self.settings) for keys, model in found.items()]

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
        expected = [estimated_tokens(text, kept_len) for text in texts]
        with TokenBar(sum(expected), show=show) as self._bar:
            for indices in divide(texts, kept_len, self.budget.tokens):
                block = [texts[i] for i in indices]
                ids = trunk.token_ids(block, self.settings.prompt, **self.settings.forward_kwargs)
                assert ids is not None  # other calls never reach the engine
                self._bar.correct(sum(map(len, ids)) - sum(expected[i] for i in indices))
                self._warn_of_cuts(block, ids, kept_len)
                for batch in plan([len(row) for row in ids], self.budget):
                    rows = [ids[i] for i in batch]
                    yield [indices[i] for i in batch], rows
                    self._bar.update(sum(map(len, rows)))

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
        keys = [head.keys(ids, self.settings.prompt) for head in self.heads]
        own = keys[0] if keys else []
        stored: dict[bytes, np.ndarray] = {}
        if self.store is not None:
            stored = self.store.get_many(own)
        known = [i for i, key in enumerate(own) if key in stored]
        missing = sorted(set(range(len(ids))) - set(known))
        self._bar.skip(sum(len(ids[i]) for i in known))
        if known:
            rows_read = [torch.from_numpy(stored[own[i]]).to(self.device, copy=True) for i in known]
            yield known, [self._placed(self.heads[0].finished(rows)) for rows in rows_read]
        new: dict[bytes, np.ndarray] = {}
        waiting = iter(missing)
        for size, (arrays, kept) in self.runner([ids[i] for i in missing]) if missing else ():
            places = list(islice(waiting, size))
            # the host waits once for all of them
            finite = torch.stack([torch.isfinite(array).all() for array in arrays]).tolist()
            if not all(finite):
                place = places[finite.index(False)]
                self._refuse(indices[place], ids[place], texts)
            for of_head, rows in zip(keys, kept, strict=True):
                new.update({of_head[i]: row.cpu().numpy() for i, row in zip(places, rows, strict=True)})
            yield places, [self._placed(array) for array in arrays]
        if self.store is not None:
            # the whole batch at once: after a kill the store has all of it or nothing
            new = {key: rows for key, rows in new.items() if np.isfinite(rows).all()}
            if new:
                self.store.put_many(list(new), list(new.values()))
            self.store.counts.add([len(ids[i]) for i in missing], [len(ids[i]) for i in known])

    def _placed(self, array: Tensor) -> Tensor:
        """An array where the settings ask for it."""
        if self.settings.to_host:
            return array.cpu()
        return array.to(self.device)

    def _forward(self, ids: Sequence[Ids]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """One pass: the arrays of the call, and what is kept of each head."""
        features = self.model.trunk.features_of(ids, self.settings.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self.device)
        if not self.heads:
            # by __call__, so that model.compile() has an effect
            return self.settings.collect(self.model(features, **self.settings.forward_kwargs)), []
        tokens: Features = self.model.trunk(features)
        kept = [head.rows(tokens) for head in self.heads]
        return [self.heads[0].finished(rows) for rows in kept[0]], kept

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
