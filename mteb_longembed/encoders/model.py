"""Our models: sentence-transformers' own classes around a backbone with a strategy inside.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer. Our engine decides only when a text is tokenised and which texts share a batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.util import select_max_active_dims, truncate_embeddings
from torch import Tensor

from mteb_longembed.errors import InputError
from mteb_longembed.files import Json

from .backbone import LongTransformer
from .batching import Engine
from .card import card_of
from .embedding_cache import EmbeddingCache
from .identity import NamedModel
from .vectors import GroupByDocument

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


class LongModelMixin(NamedModel):
    """The common part of our models: a backbone, a name, our engine, and our model card."""

    #: The embedding cache. mteb runs and searches set it, `adapt` and plain `encode` do not.
    embedding_cache: EmbeddingCache | None = None
    #: The feature that holds the vectors.
    output: str = "sentence_embedding"

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
        where = {"device": call.get("device"), "to_host": call["save_to_cpu"]}
        return Engine(self, prompt, call["batch_size"], kwargs, **where)

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], **call: Any) -> Any:
        """Encode in batches by tokens. Other calls go to sentence-transformers' own method."""
        engine = self._engine(inputs, call)
        if engine is None:
            return super()._inference(inputs, **call)
        # looking up one query costs as much as encoding it
        if len(inputs) > 1 or call.get("task") != "query":
            engine.use_cache(self.embedding_cache)
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
        card = card_of(self, model_name or self._card_data.model_id or Path(path).resolve().name)
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
            f"only dense vectors can be cut to {dims} dimensions, got a {self.family} model: leave it out."
        )


class LongSentenceTransformer(LongModelMixin, SentenceTransformer):
    """A `SentenceTransformer` whose backbone is a `LongTransformer`."""

    __module__ = _SHOWN_MODULE

    def cut_dimensions(self, dims: int | None) -> None:
        self.truncate_dim = dims


class LongMultiVectorEncoder(LongModelMixin, MultiVectorEncoder):
    """A `MultiVectorEncoder`.

    With a dense base it returns one vector for each span or window of a document, and one vector for a query. With a
    late-interaction base (see `family`) it returns a vector for each token of both.
    """

    __module__ = _SHOWN_MODULE
    has_several_vectors = True
    output = "token_embeddings"

    def cut_dimensions(self, dims: int | None) -> None:
        if not isinstance(self[-1], GroupByDocument):
            super().cut_dimensions(dims)
        else:
            self[-1].dims = dims


class LongSparseEncoder(LongModelMixin, SparseEncoder):
    """A `SparseEncoder` whose module for documents is a `LongTransformer`."""

    __module__ = _SHOWN_MODULE

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
            rows = torch.stack([done[text][0] for text in texts])
            if call["max_active_dims"] is not None:
                rows = select_max_active_dims(rows, max_active_dims=call["max_active_dims"])
            parts.append(rows.to_sparse() if call["convert_to_sparse_tensor"] else rows)
        return torch.cat(parts)


#: Our models with dense vectors, and all of our models: with one vector per document, or several.
LongDenseModel = LongSentenceTransformer | LongMultiVectorEncoder
LongModel = LongDenseModel | LongSparseEncoder
