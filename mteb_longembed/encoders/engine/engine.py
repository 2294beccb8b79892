"""The engine: runs the texts of one call through a model in batches by tokens, and yields what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from sentence_transformers.util import batch_to_device
from transformers import PretrainedConfig

from mteb_longembed.encoders.strategies import Strategy

from .batching import Budget, plan
from .blocks import Block, divide, estimated_tokens, tokenised_blocks
from .fingerprint import model_key
from .progress import TokenBar
from .reading import Reading, reading_of, warn_once
from .running import Features, Runner, not_finite, retry_in_fp32
from .store import EmbeddingStore, record_key
from .tokenizing import Ids


class TextModule(Protocol):
    """A model's first module, which tokenises and holds the strategy."""

    strategy: Strategy
    model: Any
    tokenizer: Any

    @property
    def config(self) -> PretrainedConfig:
        """The transformer's configuration."""

    @property
    def longest(self) -> int:
        """Tokens kept of a text."""

    def token_ids(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> list[Ids] | None:
        """Each text's ids; None where these inputs cannot be cut by the engine."""

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> dict[str, Any]:
        """What the forward pass takes for texts with these ids."""


class TextModel(Protocol):
    """What an engine needs of a model: its first module, and a forward pass through all of them."""

    @property
    def first(self) -> TextModule:
        """The module that tokenises and holds the strategy."""

    def __call__(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features after the last module."""


def budget_of(model: TextModel, device_type: str, batch_size: int) -> Budget:
    """What one forward pass of a model may hold on a kind of device."""
    width = model.first.config.get_text_config().hidden_size
    return Budget.for_device(device_type, width, model.first.strategy.trained_len, batch_size)


class Engine:
    """One call of `encode` on one device.

    Args:
        model: extended model.
        device: where it runs.
        prompt: put before every text.
        batch_size: texts in a batch at most.
        store: where finished embeddings are kept; None keeps none.
        kwargs: what the call hands to the modules' `forward`.
    """

    def __init__(
        self,
        model: TextModel,
        device: torch.device,
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        store: EmbeddingStore | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.prompt = prompt
        self.kwargs = kwargs or {}
        self.reading = Reading()
        self.store = store
        self.key = model_key(model, prompt, device) if store is not None else ""
        self.budget = budget_of(model, device.type, batch_size)
        # what did not fit once is not tried again by later calls
        limits = model.__dict__.setdefault("_memory_limits", {})
        self._limits: dict[str, float] = limits
        self.runner = Runner(self._find_or_run, self.budget.cost, limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], Features]]:
        """Encode texts, longest first.

        Args:
            texts: what to encode.
            show: whether a progress bar is shown.

        Yields:
            The places of some texts, and the features of their batch after the model's last module, all finite.
        """
        first = self.model.first
        max_len = first.longest
        expected = [estimated_tokens(text, max_len) for text in texts]
        blocks = divide(texts, max_len, self.budget.tokens)

        def tokenise(part: list[str]) -> list[Ids]:
            ids = first.token_ids(part, self.prompt, **self.kwargs)
            if ids is None:
                raise TypeError("all inputs of one call must be texts")
            return ids

        self.reading = Reading()
        with TokenBar(sum(expected), show=show) as bar:
            for block in tokenised_blocks(texts, blocks, tokenise):
                bar.correct(sum(map(len, block.ids)) - sum(expected[i] for i in block.places))
                self._note(block, texts, max_len)
                for batch in plan([len(ids) for ids in block.ids], self.budget):
                    yield from self._batch(block, batch, texts)
                    bar.advance(sum(len(block.ids[i]) for i in batch))

    def _note(self, block: Block, texts: list[str], max_len: int) -> None:
        """Count what is read of a block's texts, and say once where it is less than half."""
        own = [texts[i] for i in block.places]
        self.reading.add(reading_of(self.model.first.tokenizer, own, block.ids, max_len))
        warn_once(self.model, self.reading, max_len)

    def _batch(
        self, block: Block, batch: list[int], texts: list[str]
    ) -> Iterator[tuple[list[int], Features]]:
        """One planned batch, in pieces where memory is short."""
        rows = [block.ids[i] for i in batch]
        places = [block.places[i] for i in batch]
        start = 0
        for size, features in self.runner(rows):
            own, piece = places[start : start + size], rows[start : start + size]
            start += size
            if not features.pop("stored", False):
                for bad in not_finite(features):
                    self._mend(features, bad, piece[bad], _describe(own[bad], texts[own[bad]], piece[bad]))
                if self.store is not None:
                    embeddings = features["sentence_embedding"].float().cpu().numpy()
                    self.store.put(record_key(self.key, piece), embeddings)
            yield own, features
        self._limits[str(self.device)] = self.runner.limit

    def _find_or_run(self, rows: Sequence[Ids]) -> Features:
        """A batch from the store as a whole, or encoded as a whole."""
        known = self.store.get(record_key(self.key, rows)) if self.store is not None else None
        if known is not None and len(known) == len(rows):
            return {"sentence_embedding": torch.from_numpy(known).to(self.device), "stored": True}
        return self._forward(rows)

    def _forward(self, rows: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(rows, self.prompt)
        # through __call__, so that model.compile() applies
        features = batch_to_device(features, self.device)
        return self.model(features, **self.kwargs)

    def _mend(self, features: Features, row: int, ids: Ids, describe: str) -> None:
        """Put one document's fp32 result in the place of what was not finite."""
        again = retry_in_fp32(self.model.first.model, lambda: self._forward([ids]), describe)
        for name in ("sentence_embedding", "token_embeddings"):
            if name in features:
                value = again[name][0]
                target = features[name][row]
                target[: len(value)] = value.to(target.dtype)


def _describe(place: int, text: str, ids: Ids) -> str:
    start = text[:40].encode("unicode_escape", "backslashreplace").decode()
    return f"document {place} ({len(ids)} tokens, starting with '{start}')"
