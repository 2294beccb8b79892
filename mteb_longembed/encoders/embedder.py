"""What both kinds of our models share: their description, their store of finished work, and their first module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, cast

from huggingface_hub import EvalResult
from torch import Tensor, nn

from .bases.identity import Identity, digest, identity
from .bases.resolve import ResolvedModel
from .card import extended_card, scores_in
from .engine.cluster import Cluster
from .engine.reading import Reading
from .engine.running import Features
from .modules import LongTransformer, WindowPooling
from .store.store import EmbeddingStore

#: The oldest version of this package that reads what we save.
_READ_SINCE = "0.1.0"


class Embedder:
    """A mix-in for a class of sentence-transformers: the model runs on our engine."""

    #: What the model is; `build` sets it.
    resolved: ResolvedModel | None = None
    #: Its digest and its dimensions when `build` had made it.
    built: tuple[str, int | None] | None = None
    #: Where finished embeddings are kept. mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: The cluster that encodes the texts. mteb runs set it. None means only this process.
    cluster: Cluster | None = None
    #: How much of the texts the last call of `encode` read. Equal texts count once.
    reading: Reading | None = None
    #: The scores that go into the model card while it is written.
    _scores: Sequence[EvalResult] = ()

    def identity(self) -> Identity:
        """The name and revision of the model as it is now. A model that was changed is `local/NAME`."""
        known, built = self.resolved, self.built
        if known is None or built is None:
            return identity(self, str(cast("Any", self).model_card_data.model_name or "model"), "", None)
        return identity(self, known.name, known.revision, built[0])

    def remember(self, resolved: ResolvedModel) -> None:
        """Note what the model is, when it has just been built."""
        self.resolved, self.built = resolved, (digest(self), self.dimensions)

    @property
    def dimensions(self) -> int | None:
        """To how many dimensions embeddings are cut, None if they are not."""
        return cast("Any", self).truncate_dim

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self._modules_in_order()[0])

    def pool_in_fp32(self) -> Self:
        """Keep every module after the transformer in fp32. The transformer returns fp32, whatever its dtype is."""
        for module in self._modules_in_order()[1:]:
            module.float()
        return self

    @property
    def pooling(self) -> nn.Module:
        """The module after the transformer."""
        return cast("nn.Module", self._modules_in_order()[1])

    @property
    def shares_windows(self) -> bool:
        """Whether the vectors of documents that are cut depend only on their pooled windows."""
        return isinstance(self.pooling, WindowPooling) and not self.pooling.needs_tokens

    def from_windows(self, windows: Sequence[Tensor], task: str | None = None) -> Features:
        """The features after the last module, for documents whose pooled windows are known.

        Args:
            windows: `[windows, d]` of each document, as `WindowPooling` pools them.
            task: `query` or `document`, if the call gives it.
        """
        pooling = cast("WindowPooling", self.pooling)
        features = pooling.from_windows(windows, getattr(self.first.strategy, "agg", "mean"), task)
        for module in self._modules_in_order()[2:]:
            features = module(features)
        return features

    def save_pretrained(
        self, path: str, *args: Any, results: str | Path | None = None, **kwargs: Any
    ) -> None:
        """Save the model as sentence-transformers does, with our model card.

        Args:
            path: folder to write to.
            args: as in sentence-transformers.
            results: folder of mteb's results. The scores of this model in it go into the card.
            kwargs: as in sentence-transformers.

        Raises:
            DataError: if the folder has no results of this model.
        """
        with self._showing(results):
            super().save_pretrained(path, *args, **kwargs)  # type: ignore[misc]  # of the class beside this one

    def push_to_hub(self, repo_id: str, *args: Any, results: str | Path | None = None, **kwargs: Any) -> str:
        """Upload the model as sentence-transformers does, with our model card.

        Args:
            repo_id: repository to write to.
            args: as in sentence-transformers.
            results: folder of mteb's results. The scores of this model in it go into the card.
            kwargs: as in sentence-transformers.

        Raises:
            DataError: if the folder has no results of this model.
        """
        with self._showing(results):
            return str(super().push_to_hub(repo_id, *args, **kwargs))  # type: ignore[misc]

    @contextmanager
    def _showing(self, results: str | Path | None) -> Iterator[None]:
        self._scores = scores_in(results, self)
        try:
            yield
        finally:
            self._scores = ()

    def _create_model_card(self, path: str, model_name: str | None = None, *args: Any) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        data = cast("Any", self).model_card_data
        repository = model_name or data.model_id
        place = repository or Path(path).resolve().name
        card = extended_card(self, place, self._scores, is_repository="/" in (repository or ""))
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> dict[str, Any]:
        """sentence-transformers' configuration, and the package that loading needs. Without it, loading says why."""
        own: dict[str, Any] = super()._get_model_config()  # type: ignore[misc]  # of the class beside this one
        needs = {
            "specifier": f">={_READ_SINCE}",
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**own, "requirements": {**own.get("requirements", {}), "mteb-longembed": needs}}

    def _modules_in_order(self) -> list[Any]:
        return list(cast("Any", self))
