"""The name under which everything about a model in memory is kept, and whether it still holds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from sentence_transformers.base import BaseModel
from torch import nn

from mteb_longembed.encoders.strategies import algorithm_of
from mteb_longembed.files import Json
from mteb_longembed.names import Settings, name_of, split_name

from .backbone import LongTransformer, backbone_of
from .card import card_data
from .checkpoint import Checkpoint
from .digest import digest, state_of
from .kinds import Kind, kind_of_loaded
from .tokens import document_prompt


@dataclass(frozen=True)
class Identity:
    """The name and revision under which everything about a model is kept: results, stored rows, cards."""

    base: str  #: mteb's name of the base, or `local/NAME` for a model that was changed after it was loaded
    revision: str | None  #: of the base. For a changed model it is a digest of weights and configuration
    experiment: Settings  #: mteb's experiment: what makes the model of its base
    changed_from: str | None = None  #: the name that a changed model had; None for an unchanged one

    @property
    def name(self) -> str:
        """The name of the model."""
        return name_of(self.base, self.experiment)


class NamedModel(BaseModel):
    """A model that knows what it was built from, and whether it is still as it was built."""

    #: What the model was built from.
    checkpoint: Checkpoint | None = None
    #: The state of the model when it was built. None for a model whose name does not hold.
    built_state: str | None = None

    @property
    def backbone(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return backbone_of(self)

    @property
    def kind(self) -> Kind:
        """What its base gives for a text."""
        return kind_of_loaded(self)

    def identity(self) -> Identity:
        """Return the current name and revision. A model that was changed is `local/NAME` with its digest.

        All weights of a changed model are read, so it is asked when an evaluation begins, and never for a query.
        """
        checkpoint = self.checkpoint
        if checkpoint is not None:
            known = checkpoint.spec.name()
            base = checkpoint.base.name
            experiment = checkpoint.experiment
            if self.is_unchanged():
                return Identity(base, checkpoint.base.revision, experiment)
        else:
            strategy = self.backbone.strategy
            known = card_data(self).model_name or "model"
            base = split_name(known)[0]
            experiment = {"strategy": strategy.KEY, "target_len": strategy.target_len}
            experiment["algorithm"] = algorithm_of(type(strategy))
        return Identity(f"local/{base.rpartition('/')[2]}", digest(self), experiment, changed_from=known)

    def is_unchanged(self) -> bool:
        """Return whether the model still is as it was built, so that its name holds."""
        return self.checkpoint is not None and self.built_state == state_of(self)

    def remember(self, checkpoint: Checkpoint) -> None:
        """Note what the model is, when it has just been built, and give it its name.

        A prompt that is saved as `passage` or `corpus` is used for documents: sentence-transformers writes an empty
        `document` beside it, and then uses that.
        """
        prompt = document_prompt(self)
        if prompt and not self.prompts.get("document"):
            warnings.warn(
                f"the prompt of documents is empty, and another one is {prompt!r}: documents get that one. Save it as "
                "document to choose.",
                stacklevel=4,
            )
            self.prompts["document"] = prompt
        self.checkpoint = checkpoint
        card = card_data(self)
        card.model_name = checkpoint.spec.name()
        card.base_model = checkpoint.base.origin or checkpoint.base.name
        if not checkpoint.base.files.local:
            card.base_model_revision = checkpoint.base.revision
        self.built_state = state_of(self)

    def __getstate__(self) -> Json:
        # torch counts the writes to each tensor, and restarts at 0 in a copy
        return {**self.__dict__, "built_state": "copied" if self.is_unchanged() else None}

    def __setstate__(self, state: Json) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.built_state == "copied":
            self.built_state = state_of(self)

    def row_owner(self) -> object:
        """Return the key of this model in the embedding cache; None, with one warning, if its name does not hold."""
        checkpoint = self.checkpoint
        if checkpoint is None or not self.is_unchanged() or checkpoint.base.revision is None:
            warnings.warn(
                "the embedding cache is off for this model: it was changed after it was loaded.",
                RuntimeWarning,
                stacklevel=4,
            )
            return None
        made_by = algorithm_of(type(checkpoint.strategy)), repr(checkpoint.strategy), checkpoint.spec.dtype
        return (
            checkpoint.base.name,
            checkpoint.base.revision,
            *made_by,
            digest(nn.Sequential(*list(self)[1:])),
        )
