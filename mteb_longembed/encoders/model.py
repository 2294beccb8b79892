"""Our models: sentence-transformers' own classes around a backbone with a strategy inside.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer. Our engine decides only when a text is tokenised and which texts share a batch.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.util import select_max_active_dims, truncate_embeddings
from torch import Tensor, nn

from mteb_longembed.errors import InputError
from mteb_longembed.files import Json

from .backbone import LongTransformer
from .batching import Encoder, Engine
from .card import card_data, card_of
from .embedding_cache import EmbeddingCache
from .head import Head
from .kinds import Kind
from .vectors import BATCH, WINDOWS, Features, GroupByDocument

#: The arguments of `_inference` that are not inputs of the modules' `forward`.
_OF_CALL = (
    "device", "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
    "truncate_dim", "token_pooling", "convert_to_sparse_tensor", "max_active_dims",
)  # fmt: skip
#: Maximum number of sparse vectors in dense form, with a weight for each term, in memory.
_DENSE_AT_ONCE = 512
#: The module that our classes name as theirs, see its docstring.
_SHOWN_MODULE = "mteb_longembed.encoders.sentence_transformers"
#: A model with dense vectors: sentence-transformers' own, or ours.
Model = SentenceTransformer | MultiVectorEncoder


class LongModelMixin(Encoder):
    """The common part of our models: backbone and head, a name, our engine, and our model card."""

    #: The embedding cache. mteb runs and searches set it, `adapt` and plain `encode` do not.
    embedding_cache: EmbeddingCache | None = None

    @property
    def head(self) -> Head:
        """The modules after the backbone, as one value."""
        return Head.of(self)

    def _reads(self, task: object, call: Json) -> bool:
        """Return whether our engine computes the requested output, and the backbone reads the texts."""
        return isinstance(self[0], LongTransformer) and call["output_value"] == self.output

    def _engine(self, inputs: list[object], call: Json) -> Engine | None:
        """Return the engine for a call of `encode`; None if sentence-transformers' own method must run."""
        kwargs = {key: value for key, value in call.items() if key not in _OF_CALL}
        prompt = call.get("prompt")
        if not self._reads(kwargs.get("task"), call):
            return None
        if self.backbone.token_ids(inputs[:1], prompt, **kwargs) is None:
            return None  # more than plain text
        return Engine([self], prompt, call["batch_size"], kwargs, call.get("device"), call["save_to_cpu"])

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], **call: Any) -> Any:
        """Encode in batches by tokens. Other calls go to sentence-transformers' own method."""
        engine = self._engine(inputs, call)
        if engine is None:
            return super()._inference(inputs, **call)
        # looking up one query costs as much as encoding it
        if len(inputs) > 1 or call.get("task") != "query":
            engine.keep_in(self.embedding_cache)
        done = engine.encode(inputs, show=call["show_progress_bar"])
        arrays = [done[text][0] for text in inputs]
        if call.get("truncate_dim") is not None:
            arrays = [truncate_embeddings(array, call["truncate_dim"]) for array in arrays]
        if call["normalize_embeddings"]:
            arrays = [torch.nn.functional.normalize(array, dim=-1) for array in arrays]
        if call.get("token_pooling") is not None:
            arrays = call["token_pooling"].pool(arrays, task=call.get("task"))
        if not self.has_several_vectors:
            return torch.stack(arrays)
        return arrays

    def _create_model_card(self, path: str, model_name: str | None = None, *args: object) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        card = card_of(self, model_name or card_data(self).model_id or Path(path).resolve().name)
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> Json:
        """Add the package that loading needs to the configuration; loading without it reports why."""
        config = super()._get_model_config()
        needs = {
            "specifier": ">=0.9.0",  # the oldest version that reads what we save
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**config, "requirements": {**config.get("requirements", {}), "mteb-longembed": needs}}

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only `dims` leading dimensions of a vector. None keeps all.

        Raises:
            InputError: for sparse vectors, and vectors of tokens.
        """
        raise InputError(
            f"only dense vectors can be cut to {dims} dimensions, got a {self.kind} model: leave it out."
        )


class LongSentenceTransformer(LongModelMixin, SentenceTransformer):
    """A `SentenceTransformer` whose backbone is a `LongTransformer`."""

    __module__ = _SHOWN_MODULE

    def cut_dimensions(self, dims: int | None) -> None:
        self.truncate_dim = dims


class LongMultiVectorEncoder(LongModelMixin, MultiVectorEncoder):
    """A `MultiVectorEncoder`.

    With a dense base it returns one vector for each span or window of a document, and one vector for a query. With a
    late-interaction base (see `kind`) it returns a vector for each token of both.
    """

    __module__ = _SHOWN_MODULE
    has_several_vectors = True
    output = "token_embeddings"

    def cut_dimensions(self, dims: int | None) -> None:
        if not isinstance(self[-1], GroupByDocument):
            super().cut_dimensions(dims)
        else:
            self[-1].dims = dims

    def collect(self, features: Features, device: torch.device) -> list[Tensor]:
        """Return the vectors of each document of a batch, on a device.

        They are `[n, d]`; windows that were not joined are `[windows, size, d]`, with zeros for tokens that do not
        count.
        """
        batch = features.get(BATCH)
        if batch is None or batch.windows is None:
            return super().collect(features, device)
        rows = features[self.output] * features["attention_mask"][:, :, None]
        return list(rows.to(device).split(batch.windows.texts.bincount().tolist()))


class LongSparseEncoder(LongModelMixin, SparseEncoder):
    """A `SparseEncoder` whose module for documents is a `LongTransformer`.

    With `has_several_vectors`, the engine returns the vectors of windows; `encode` always returns their maximum.
    """

    __module__ = _SHOWN_MODULE

    def collect(self, features: Features, device: torch.device) -> list[Tensor]:
        """Return one array for each document of a batch, or the vectors of its windows."""
        if not self.has_several_vectors:
            return super().collect(features, device)
        rows = features.get(WINDOWS)
        if rows is None:
            rows = features[self.output][:, None]
        return [row.to(device) for row in rows]

    def _reads(self, task: object, call: Json) -> bool:
        # a router may read queries by another module, and a module may select tokens itself
        selects = call["max_active_dims"] is not None and "max_active_dims" in self.get_model_kwargs()
        return (self[0] is self.backbone or task == "document") and not selects

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], **call: Any) -> Tensor:
        """Encode in batches by tokens. Other calls go to sentence-transformers' own method."""
        engine = self._engine(inputs, call)
        if engine is None:
            return SparseEncoder._inference(self, inputs, **call)
        parts = []
        for start in range(0, len(inputs), _DENSE_AT_ONCE):
            texts = inputs[start : start + _DENSE_AT_ONCE]
            done = engine.encode(texts, show=call["show_progress_bar"])
            rows = torch.stack([torch.atleast_2d(done[text][0]).amax(0) for text in texts])
            if call["max_active_dims"] is not None:
                rows = select_max_active_dims(rows, max_active_dims=call["max_active_dims"])
            parts.append(rows.to_sparse() if call["convert_to_sparse_tensor"] else rows)
        return torch.cat(parts)


#: Our models with dense vectors, and all of our models: with one vector per document, or several.
LongDenseModel = LongSentenceTransformer | LongMultiVectorEncoder
LongModel = LongDenseModel | LongSparseEncoder


#: The class of our model for each kind of base, with one vector per document.
OWNERS: dict[Kind, type[LongModel]] = {
    "dense": LongSentenceTransformer,
    "late-interaction": LongMultiVectorEncoder,
    "sparse": LongSparseEncoder,
}


@overload
def of_modules(modules: list[nn.Module], settings: Json, device: str | None) -> LongDenseModel: ...
@overload
def of_modules(modules: list[nn.Module], settings: Json, device: str | None, kind: Kind) -> LongModel: ...
def of_modules(
    modules: list[nn.Module], settings: Json, device: str | None, kind: Kind = "dense"
) -> LongModel:
    """Build one of our models from a backbone and a head, with another model's `settings_of`.

    Default `device`: the best one of this machine.
    """
    owner = OWNERS[kind]
    if isinstance(modules[-1], GroupByDocument):
        settings.pop("truncate_dim", None)  # the last module cuts dimensions
        owner = LongMultiVectorEncoder
    model = owner(modules=modules, device=device, **settings)
    for module in list(model)[1:]:
        module.float()  # the backbone always returns fp32
    return model


@overload
def with_head(model: LongDenseModel, head: Head) -> LongDenseModel: ...
@overload
def with_head(model: Model, head: Head, *, stock: bool = False) -> Model: ...
def with_head(model: Model, head: Head, *, stock: bool = False) -> Model:
    """Return a model with the same backbone and another head. The original does not change.

    The new model keeps the embedding cache and the name of one of our models, except for `vectors`. With `stock`, a
    model with a stock backbone gets only stock modules, so that it opens without this package.

    Raises:
        IncompatibleError: if the model has no such head.
    """
    backbone = model[0]
    settings = settings_of(model)
    if not isinstance(backbone, LongTransformer):
        modules = head.stock_modules() if stock else head.modules()
        return type(model)(modules=[backbone, *modules], device=str(model.device), **settings)
    if head.vectors is not None:
        settings.pop("similarity_fn_name", None)
    copied = of_modules([backbone, *head.modules(cuts=backbone.cuts)], settings, str(model.device))
    if isinstance(model, LongModelMixin) and model.resolved is not None and model.is_unchanged():
        method = replace(model.resolved.method, vectors=head.vectors)
        copied.set_name(replace(model.resolved, method=method))
        copied.embedding_cache = model.embedding_cache
    return copied


def settings_of(model: BaseModel) -> Json:
    """Return the arguments of a model's constructor other than its modules: prompts, similarity, dimensions."""
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_active_dims")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}
