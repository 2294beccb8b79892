"""What a model of ours is: the checkpoint that it was built from, and its name as long as the model is unchanged."""

from __future__ import annotations

from typing import Any, cast

from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Pooling, WordWeights
from torch import Tensor, nn

from mteb_longembed.encoders.modules.transformer import LongTransformer

from .checkpoints.checkpoint import Checkpoint
from .checkpoints.identity import Identity, digest
from .store import EmbeddingStore
from .strategies import ALGORITHM


class BuiltModel(BaseModel):
    """A model whose first module is a `LongTransformer`, with the name that `build` gave it."""

    #: What the model was built from.
    checkpoint: Checkpoint | None = None
    #: The digest of the model when it was built. None for a model whose name does not hold.
    built_digest: str | None = None
    #: Where finished embeddings are kept. mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None

    def identity(self) -> Identity:
        """The name and revision of the model as it is now. A model that was changed is `local/NAME`.

        All weights are read, so it is asked when an evaluation begins, and never for a query.
        """
        now = digest(self)
        known = str(getattr(self.model_card_data, "model_name", None) or "model")
        if self.checkpoint is not None:
            known = self.checkpoint.name
            if now == self.built_digest:
                return Identity(known, self.checkpoint.revision)
        return Identity(f"local/{known.rpartition('/')[2]}", f"{now}-{ALGORITHM}", changed_from=known)

    def is_unchanged(self) -> bool:
        """Whether the model still is as it was built, so that its name holds. All weights are read."""
        return self.checkpoint is not None and self.built_digest == digest(self)

    def remember(self, checkpoint: Checkpoint) -> None:
        """Note what the model is, when it has just been built, and give it its name."""
        self.checkpoint = checkpoint
        card: Any = self.model_card_data
        card.model_name = checkpoint.name
        card.base_model, _ = checkpoint.base.origin
        # mteb reads the revision of a loaded model from this field, so it is that of our model and not of the base
        card.base_model_revision = checkpoint.revision
        self.built_digest = digest(self)

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self[0])

    @property
    def has_several_vectors(self) -> bool:
        """Whether a document has several vectors."""
        return self.checkpoint is not None and self.checkpoint.vectors is not None

    @property
    def token_weights(self) -> Tensor | None:
        """The corpus weights of the model's tokens, `[vocabulary]`. None if all tokens count the same."""
        for module in self:
            if isinstance(module, WordWeights):
                return module.emb_layer.weight.detach()[:, 0]
        return None

    @property
    def pooling(self) -> nn.Module | None:
        """The module that pools tokens. None if each token is a vector of the text."""
        # it follows the transformer, or its corpus weights
        for module in list(self)[1:3]:
            if isinstance(module, Pooling):
                return cast("nn.Module", module)
        return None

    @property
    def after_pooling(self) -> list[nn.Module]:
        """The modules that follow the pooling, such as Dense and Normalize."""
        modules = list(self)
        pooling = self.pooling
        if pooling is None:
            return []
        return modules[modules.index(pooling) + 1 :]
