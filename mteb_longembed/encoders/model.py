"""The SentenceTransformer that `extend` and `load` return: sentence-transformers' own class, on our engine.

The engine decides only when a text is tokenised and which texts share a batch. The modules' `forward` decides what
happens to a document: first the trunk, then the head. `with_head` gives the same trunk another head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base import BaseModel
from sentence_transformers.util import truncate_embeddings
from torch import Tensor, nn

from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint
from mteb_longembed.encoders.checkpoints.identity import Identity, digest, state_of
from mteb_longembed.encoders.engine.engine import EncodeSettings, Engine
from mteb_longembed.encoders.engine.store import EmbeddingStore
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.heads.pooling import GroupByDocument
from mteb_longembed.encoders.positions.strategies import ALGORITHM
from mteb_longembed.encoders.publishing.card import extended_card
from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.errors import InputError

#: What our engine gives for a text. What else `encode` may be asked for is sentence-transformers' own matter.
_ARRAYS = ("sentence_embedding", "token_embeddings")
#: A model of sentence-transformers' own, or one of ours.
Model = SentenceTransformer | MultiVectorEncoder


class LongModelMixin(BaseModel):
    """What our two models share: a trunk and a head, a name, our engine, and our model card."""

    #: What the model was built from.
    checkpoint: Checkpoint | None = None
    #: The digest of the model when it was built. None for a model whose name does not hold.
    built_digest: str | None = None
    #: Where pooled vectors are kept. mteb runs, searches and `adapt` set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: Models with the same trunk whose rows are kept in the store too, when this one encodes for it.
    also: Sequence[LongModelMixin] = ()
    #: What `rows_may_be_kept` found, and for which state.
    _compared: tuple[object, bool] | None = None

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

    def rows_may_be_kept(self) -> bool:
        """As `is_unchanged`, but all weights are read once for each store, and after a write that torch counts."""
        state = id(self.store), self.built_digest, state_of(self)
        if self._compared is None or self._compared[0] != state:
            self._compared = state, self.is_unchanged()
        return self._compared[1]

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
    def trunk(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self[0])

    @property
    def head(self) -> Head:
        """What becomes of token embeddings."""
        return Head.of(self)

    #: The arguments of `_inference` that are no inputs of the modules' `forward`, without `device`.
    OF_CALL = frozenset((
        "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
    ))  # fmt: skip

    @torch.inference_mode()
    def _inference(
        self, inputs: list[Any], *, device: int | str | torch.device | None = None, **arguments: Any
    ) -> Any:
        """Encode in batches by tokens. What the engine cannot cut goes to sentence-transformers' own method."""
        call = {key: arguments[key] for key in self.OF_CALL}
        kwargs = {key: value for key, value in arguments.items() if key not in call or key == "task"}
        ours = isinstance(self[0], LongTransformer) and call["output_value"] in _ARRAYS
        if not ours or self.trunk.token_ids(inputs[:1], call["prompt"], **kwargs) is None:
            return super()._inference(inputs, device=device, **arguments)
        for index, text in enumerate(inputs):
            if not isinstance(text, str):
                raise InputError(
                    f"all inputs of one call must be texts if the first one is, got a {type(text).__name__} at "
                    f"place {index}."
                )
        has_several = isinstance(self, MultiVectorEncoder)
        of_tokens = call["output_value"] == "token_embeddings" and not has_several
        # vectors are pooled where they are
        to_host = call["save_to_cpu"] and not of_tokens and call.get("token_pooling") is None
        settings = EncodeSettings(
            call["prompt"], call["batch_size"], kwargs, by_row=has_several or of_tokens, to_host=to_host
        )
        store = self.store
        # to find one question again costs as much as to encode it
        is_one_question = len(inputs) == 1 and arguments.get("task") == "query"
        if of_tokens or is_one_question:
            store = None
        engine = Engine(self.eval(), self._resolve_inference_device(device), settings, store)
        texts = list(dict.fromkeys(inputs))
        done: dict[str, Tensor] = {}
        for indices, arrays in engine.encode(texts, show=call["show_progress_bar"]):
            done.update(zip([texts[i] for i in indices], self._finished(arrays, call), strict=True))
        embeddings = [done[text] for text in inputs]
        if call["output_value"] == "sentence_embedding":
            return torch.stack(embeddings)
        return embeddings

    def _finished(self, arrays: list[Tensor], call: dict[str, Any]) -> list[Tensor]:
        """The arrays of some texts as `_inference` returns them, whose arguments are `call`."""
        raise NotImplementedError

    def _create_model_card(self, path: str, model_name: str | None = None, *args: Any) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        repository = model_name or getattr(self.model_card_data, "model_id", None)
        name = repository or Path(path).resolve().name
        card = extended_card(cast("Any", self), name, is_repository="/" in (repository or ""))
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> dict[str, Any]:
        """sentence-transformers' configuration, and the package that loading needs. Without it, loading says why."""
        config = super()._get_model_config()
        needs = {
            "specifier": ">=0.5.0",  # the oldest version that reads what we save
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**config, "requirements": {**config.get("requirements", {}), "mteb-longembed": needs}}


class LongSentenceTransformer(LongModelMixin, SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`."""

    OF_CALL = LongModelMixin.OF_CALL | {"truncate_dim"}

    def _finished(self, arrays: list[Tensor], call: dict[str, Any]) -> list[Tensor]:
        if call["output_value"] == "token_embeddings":
            return arrays
        embeddings = torch.stack(arrays)
        if call["truncate_dim"] is not None:
            embeddings = truncate_embeddings(embeddings, call["truncate_dim"])
        if call["normalize_embeddings"]:
            embeddings = torch.nn.functional.normalize(embeddings, p=2, dim=1)
        return list(embeddings)

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only so many leading dimensions of a vector. None keeps all."""
        self.truncate_dim = dims


class LongMultiVectorEncoder(LongModelMixin, MultiVectorEncoder):
    """A `MultiVectorEncoder`: one vector for each span or window of a document, and one vector for a query."""

    @property
    def grouping(self) -> GroupByDocument:
        """The last module, which groups vectors by document."""
        return cast("GroupByDocument", self[-1])

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only so many leading dimensions of a vector. None keeps all."""
        self.grouping.dims = dims

    OF_CALL = LongModelMixin.OF_CALL | {"token_pooling", "task"}

    def _finished(self, arrays: list[Tensor], call: dict[str, Any]) -> list[Tensor]:
        if call["normalize_embeddings"]:
            arrays = [torch.nn.functional.normalize(rows, dim=-1) for rows in arrays]
        if call["token_pooling"] is not None:
            arrays = call["token_pooling"].pool(arrays, task=call["task"])
        if call["save_to_cpu"]:
            return [rows.cpu() for rows in arrays]
        return arrays


#: Our models: with one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder


def of_modules(
    modules: list[nn.Module], settings: dict[str, Any], device: str | None, *, has_several_vectors: bool
) -> LongModel:
    """One of our models, of a trunk and the modules of a head, with what `settings_of` gives of another model.

    Without a `device` it goes to the best one of this machine.
    """
    made: LongModel
    if has_several_vectors:
        settings.pop("truncate_dim", None)  # its last module, `GroupByDocument`, cuts dimensions
        made = LongMultiVectorEncoder(modules=modules, device=device, **settings)
    else:
        made = LongSentenceTransformer(modules=modules, device=device, **settings)
    for module in list(made)[1:]:
        module.float()  # the trunk returns fp32, whatever its dtype is
    return made


def with_head(model: Model, head: Head, *, stock: bool = False) -> Model:
    """A model with the same trunk and another head. The given one stays as it is.

    It has the store and the name of a model of ours, but for `vectors`. Heads that pool alike share rows there. With
    `stock`, a model with a stock trunk gets stock modules alone, so that it opens without this package.

    Raises:
        IncompatibleError: if the trunk has no such head.
    """
    trunk = model[0]
    settings = settings_of(model)
    if not isinstance(trunk, LongTransformer):
        modules = head.stock_modules() if stock else head.modules()
        stock_model: Any = type(model)(modules=[trunk, *modules], device=str(model.device), **settings)
        return cast("Model", stock_model)
    if head.vectors is not None:
        settings.pop("similarity_fn_name", None)
    modules = [trunk, *head.modules(cuts=trunk.cuts)]
    made = of_modules(modules, settings, str(model.device), has_several_vectors=head.vectors is not None)
    if isinstance(model, LongModelMixin) and model.checkpoint is not None and model.is_unchanged():
        spec = replace(model.checkpoint.spec, vectors=head.vectors)
        made.remember(replace(model.checkpoint, spec=spec))
        made.store = model.store
        made.also = model.also
    return made


def settings_of(model: BaseModel) -> dict[str, Any]:
    """The arguments of a model's constructor other than its modules: prompts, similarity, dimensions."""
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}
