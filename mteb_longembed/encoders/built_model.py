"""What a model of ours is: the checkpoint that it was built from, and its name as long as the model is unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Pooling, WordWeights
from torch import Tensor, nn

from .adapters import adapters_on, merge_adapters
from .checkpoints.checkpoint import BaseCheckpoint
from .checkpoints.identity import AsBuilt, Identity, identity
from .checkpoints.opening import open_checkpoint
from .checkpoints.spec import ModelSpec
from .modules import LongTransformer
from .store.store import EmbeddingStore


class BuiltModel(BaseModel):
    """A model whose first module is a `LongTransformer`, with the name that `build` gave it."""

    #: What the model was built from.
    checkpoint: BaseCheckpoint | None = None
    #: Its parts as `build` made them. None for a model whose name does not hold.
    built: AsBuilt | None = None
    #: To how many dimensions its embeddings were cut when it was built; another cut is an experiment of mteb's.
    built_dimensions: int | None = None
    #: Where finished embeddings are kept. mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: Models that share the transformer and pool in another way. What is encoded for the store is pooled for them too.
    siblings: Sequence[BuiltModel] = ()

    def identity(self) -> Identity:
        """The name and revision of the model as it is now. A model that was changed is `local/NAME`."""
        if self.checkpoint is None:
            name = getattr(self.model_card_data, "model_name", None) or "model"
            return identity(self, name, "", None)
        return identity(self, self.checkpoint.model_name, self.checkpoint.model_revision, self.built)

    def is_unchanged(self) -> bool:
        """Whether the model still is as it was built, so that its name holds. No weight is read."""
        return self.checkpoint is not None and self.built is not None and self.built.fits(self)

    def remember(self, checkpoint: BaseCheckpoint) -> None:
        """Note what the model is, when it has just been built, and give it its name."""
        self.checkpoint = checkpoint
        card: Any = self.model_card_data
        card.model_name = checkpoint.model_name
        card.base_model = checkpoint.base_name
        # mteb reads the revision of a loaded model from this field, so it is that of our model and not of the base
        card.base_model_revision = checkpoint.model_revision
        self.built = AsBuilt(self)
        self.built_dimensions = self.dimensions

    @property
    def dimensions(self) -> int | None:
        """To how many dimensions embeddings are cut, None if they are not."""
        return getattr(self, "truncate_dim", None)

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self[0])

    def merge_adapters(self) -> Self:
        """Add the adapters that act (`add_adapter`) to the weights, and take them off. Embeddings stay the same."""
        if adapters_on(self.first.model):
            self.built = None  # PEFT writes to `.data`, which PyTorch does not count
        merge_adapters(self.first.model)
        return self

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


def identity_of(model: BaseModel) -> Identity | None:
    """What a model is now, also one that stock code loaded from a folder of ours. None for other models."""
    if isinstance(model, BuiltModel):
        return model.identity()
    first = next(iter(model), None)
    if not isinstance(first, LongTransformer) or not first.saved_in:
        return None
    path, revision = first.saved_in
    saved = open_checkpoint(ModelSpec(path, revision=revision))
    return identity(model, saved.model_name, saved.model_revision, vars(model).get("built"))
