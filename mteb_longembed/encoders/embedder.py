"""What both kinds of our models share: who they are, where finished work is kept, and their first module."""

from __future__ import annotations

from typing import Any, Self, cast

from .bases.resolve import ResolvedModel
from .engine.cluster import Cluster
from .engine.reading import Reading
from .engine.store import EmbeddingStore
from .modules import LongTransformer


class Embedder:
    """Beside a class of sentence-transformers': a model that runs on our engine."""

    #: What the model is; `build` sets it.
    resolved: ResolvedModel | None = None
    #: Where finished embeddings are kept: mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: The cluster that encodes the texts: mteb runs set it; None is this process alone.
    cluster: Cluster | None = None
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

    def _modules_in_order(self) -> list[Any]:
        return list(cast("Any", self))
