"""What both kinds of our models share: who they are, where finished work is kept, and their first module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from torch import Tensor, nn

from .bases.resolve import ResolvedModel
from .engine.reading import Reading
from .engine.running import Features
from .engine.store import EmbeddingStore
from .modules import LongTransformer, WindowPooling

#: The oldest version of ours that reads what we save.
_READ_SINCE = "0.1.0"


class Embedder:
    """Beside a class of sentence-transformers': a model that runs on our engine."""

    #: What the model is; `build` sets it.
    resolved: ResolvedModel | None = None
    #: Where finished embeddings are kept: mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: How much of the texts the last call of `encode` read; equal texts count once.
    reading: Reading | None = None

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self._modules_in_order()[0])

    def pool_in_fp32(self) -> Self:
        """Keep every module behind the transformer in fp32: it hands over fp32 whatever it computes in."""
        for module in self._modules_in_order()[1:]:
            module.float()
        return self

    @property
    def pooling(self) -> nn.Module:
        """The module behind the transformer."""
        return cast("nn.Module", self._modules_in_order()[1])

    @property
    def shares_windows(self) -> bool:
        """Whether documents that are cut get their vectors from their pooled windows alone."""
        return isinstance(self.pooling, WindowPooling) and not self.pooling.needs_tokens

    def from_windows(self, windows: Sequence[Tensor], task: str | None = None) -> Features:
        """The features after the last module, of documents whose pooled windows are known.

        Args:
            windows: `[windows, d]` of each document, as `WindowPooling` pools them.
            task: `query` or `document`, where the call says so.
        """
        pooling = cast("WindowPooling", self.pooling)
        features = pooling.from_windows(windows, getattr(self.first.strategy, "agg", "mean"), task)
        for module in self._modules_in_order()[2:]:
            features = module(features)
        return features

    def _get_model_config(self) -> dict[str, Any]:
        """As sentence-transformers', with what it needs to be loaded: without it, it fails and says why."""
        own: dict[str, Any] = super()._get_model_config()  # type: ignore[misc]  # of the class beside this one
        needs = {
            "specifier": f">={_READ_SINCE}",
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**own, "requirements": {**own.get("requirements", {}), "mteb-longembed": needs}}

    def _modules_in_order(self) -> list[Any]:
        return list(cast("Any", self))
