"""The sentence-transformers modules that give a document several vectors.

`SpanPooling` replaces the base's pooling. It passes one row for each vector to the base's remaining modules (Dense,
Normalize), which need not know about documents. `GroupByDocument` is the last module. It groups the rows by document,
in the form that sentence-transformers' `MultiVectorEncoder` reads.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from sentence_transformers.base import BaseModel
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor

from mteb_longembed.encoders import features as keys
from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.modules.transformer import LongTransformer, WindowPooling
from mteb_longembed.encoders.modules.windows import mean_by


class SpanPooling(WindowPooling):
    """One vector for every `vectors` content tokens of a document, or for every window. A query gets one vector.

    Source: on extended positions this is late chunking (Günther et al. 2024, arXiv:2409.04701): the transformer reads
        the whole document, and spans of its token embeddings are averaged afterwards.
    Differs: spans have a fixed number of tokens. In the paper a text splitter makes the spans, as in `encode_spans`.

    The last span of a document may be shorter. Prompt and special tokens belong to no span. A text without content
    keeps the one vector that the base gives it.

    Args:
        vectors: content tokens for each vector, or `window`.
    """

    config_keys = [*Pooling.config_keys, "vectors"]
    forward_kwargs = {"task"}

    def __init__(self, *args: Any, vectors: int | Literal["window"] = "window", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.vectors = vectors

    def on_model_ready(self, model: BaseModel) -> None:
        """Make the transformer report which tokens are content."""
        if isinstance(model[0], LongTransformer):
            model[0].tells_content = True

    def forward(self, features: Features, task: str | None = None, **kwargs: Any) -> Features:
        """Replace `sentence_embedding` `[b, d]` by `[vectors, d]`. Add their number in each text, on the host."""
        pooled = super().forward(dict(features), **kwargs)
        vectors = pooled["sentence_embedding"]
        counts = torch.ones(len(vectors), dtype=torch.long)
        if task != "query" and self.vectors != "window":
            vectors, counts = self._spans(pooled, vectors, self.vectors)
        elif task != "query" and keys.WINDOW_COUNTS in features:
            counts = features[keys.WINDOW_COUNTS]
            vectors = Pooling.forward(self, features)["sentence_embedding"]
        return {**pooled, "sentence_embedding": vectors, keys.VECTOR_COUNTS: counts}

    @staticmethod
    def _spans(features: Features, base_vectors: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The mean of each span's token embeddings, and how many spans each document has."""
        tokens = features["token_embeddings"]
        # all that follows but the sums is known on the host
        start = features[keys.WINDOW_PREFIX].cpu()[:, None]
        end = (features.pop(keys.DOCUMENT_LENGTHS) - features[keys.SPECIAL_SUFFIX])[:, None]
        index = torch.arange(tokens.shape[1])[None]
        inside = (index >= start) & (index < end)
        content = inside.sum(1)
        counts = ((content + size - 1) // size).clamp(min=1)
        first = counts.cumsum(0) - counts
        span = first[:, None] + (index - start).div(size, rounding_mode="floor")
        rows = to_device(inside.flatten().nonzero()[:, 0], tokens.device)
        weights = features.get(keys.TOKEN_WEIGHTS)
        if weights is not None:
            weights = weights.flatten()[rows]
        vectors = mean_by(span[inside], tokens.flatten(0, 1)[rows], int(counts.sum()), weights)
        empty = (content == 0).nonzero()[:, 0]
        if len(empty):
            fallback = base_vectors[to_device(empty, vectors.device)].to(vectors.dtype)
            vectors = vectors.index_copy(0, to_device(first[empty], vectors.device), fallback)
        return vectors, counts


class GroupByDocument(Module):
    """Groups vectors by document: padded `token_embeddings` `[b, v, d]` and their `attention_mask`.

    Args:
        normalize: whether vectors are scaled to length 1, so that their dot product is the cosine.
        dims: number of leading dimensions that are kept. None: all.
    """

    config_keys = ["normalize", "dims"]

    def __init__(self, normalize: bool = True, dims: int | None = None) -> None:
        super().__init__()
        self.normalize = normalize
        self.dims = dims

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Replace the features of tokens by those of vectors."""
        counts = features.pop(keys.VECTOR_COUNTS)
        rows = features.pop("sentence_embedding")[:, : self.dims]
        if self.normalize:
            rows = torch.nn.functional.normalize(rows, dim=1)
        vectors = torch.nn.utils.rnn.pad_sequence(list(rows.split(counts.tolist())), batch_first=True)
        mask = to_device((torch.arange(vectors.shape[1]) < counts[:, None]).long(), vectors.device)
        of_tokens = (keys.WINDOW_PREFIX, keys.SPECIAL_SUFFIX, keys.DOCUMENT_LENGTHS, keys.TOKEN_WEIGHTS)
        for key in ("input_ids", "token_type_ids", *of_tokens):
            features.pop(key, None)
        return {**features, "token_embeddings": vectors, "attention_mask": mask}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save the two settings."""
        self.save_config(output_path)
