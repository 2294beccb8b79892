"""The sentence-transformers modules of a head: a pooling of windows and groups of tokens, and vectors by document.

`HeadPooling` replaces the base's pooling. It passes one row for each vector to the base's remaining modules (Dense,
Normalize), which need not know about documents. `GroupByDocument` is the last module of a model with several vectors.
It groups the rows by document, in the form that sentence-transformers' `MultiVectorEncoder` reads.
"""

from dataclasses import replace
from typing import Any

import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor

from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.token_batch import BATCH, TokenBatch, batch_of, mean_by

from .grouping import Grouping, Vectors, grouping_of, read_vectors


class HeadPooling(Pooling):
    """Pools each text, or each of its windows, with the base's own mode: one vector for a document, or several.

    One vector of a document that was cut is the mean of its windows' vectors; with weights of tokens, it is the
    weighted mean of all of its tokens. A query has one vector. A text without content keeps the one vector that the
    base gives it.

    Args:
        vectors: content tokens for each vector, or a key of `GROUPINGS`. None: one vector.
    """

    config_keys = [*Pooling.config_keys, "vectors"]

    def __init__(self, *args: Any, vectors: Vectors | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.vectors = read_vectors(vectors)
        #: What of the arguments of `encode` the forward pass takes: queries have one vector.
        self.forward_kwargs = set() if vectors is None else {"task"}

    def forward(self, features: Features, task: str | None = None, **kwargs: Any) -> Features:
        """Add `sentence_embedding` `[vectors, d]`, and to the `TokenBatch` the vectors of each text.

        Features of windows become those of their texts.
        """
        batch = batch_of(features)
        pooled = super().forward(dict(features), **kwargs)
        rows = pooled["sentence_embedding"]
        grouping = None
        if task != "query":
            grouping = grouping_of(self.vectors)
        counts = torch.ones(len(batch.lengths), dtype=torch.long)
        of_texts = pooled
        if batch.windows is not None:
            of_texts = _of_texts(pooled, batch)
        if grouping is not None and not grouping.averages:
            vectors = rows
            if batch.windows is not None:
                counts = batch.windows.counts
        else:
            vectors = _one_vector(rows, of_texts, batch)
            if grouping is not None:
                vectors, counts = _grouped(of_texts, batch, grouping, vectors)
        return {**of_texts, "sentence_embedding": vectors, BATCH: replace(batch, vectors=counts)}


def _of_texts(features: Features, batch: TokenBatch) -> Features:
    """Features of windows as those of their texts: token embeddings `[b, n, d]`, and the weights of tokens."""
    assert batch.windows is not None
    joined = dict(features)
    tokens = batch.windows.joined(features["token_embeddings"], batch.width)
    joined["token_embeddings"] = tokens
    real = torch.arange(batch.width) < batch.lengths[:, None]
    joined["attention_mask"] = to_device(real.to(features["attention_mask"].dtype), tokens.device)
    joined.pop("input_ids", None)
    joined.pop("token_type_ids", None)
    if batch.weights is not None:
        weights = batch.windows.joined(batch.weights[:, :, None], batch.width)[:, :, 0]
        joined[BATCH] = replace(batch, weights=weights)
    return joined


def _one_vector(rows: Tensor, of_texts: Features, batch: TokenBatch) -> Tensor:
    """The vector of each text, `[b, d]`, from those of its windows, or from its weighted tokens."""
    if batch.windows is None:
        return rows
    weights = batch_of(of_texts).weights
    if weights is None:
        return mean_by(batch.windows.texts, rows, len(batch.lengths))
    tokens: Tensor = of_texts["token_embeddings"]
    return tokens.sum(1) / weights.sum(1, keepdim=True).clamp(min=1e-9)


def _grouped(
    features: Features, batch: TokenBatch, grouping: Grouping, of_texts: Tensor
) -> tuple[Tensor, Tensor]:
    """The mean of each group of tokens, and how many groups each text has. A text without one keeps its vector."""
    tokens = features["token_embeddings"]
    groups: list[Tensor] = []
    counts: list[int] = []
    empty: list[int] = []
    for number in range(len(of_texts)):
        own = grouping.tokens(batch, number)
        if not own:
            empty.append(len(groups))
            own = [torch.arange(0)]
        groups += [number * tokens.shape[1] + group for group in own]
        counts.append(len(own))
    rows = to_device(torch.cat(groups), tokens.device)
    group = torch.repeat_interleave(torch.arange(len(groups)), torch.tensor(list(map(len, groups))))
    weights = batch_of(features).weights
    if weights is not None:
        weights = weights.flatten()[rows]
    vectors = mean_by(group, tokens.flatten(0, 1)[rows], len(groups), weights)
    n_vectors = torch.tensor(counts)
    if empty:
        places = to_device(torch.tensor(empty), vectors.device)
        texts = to_device(
            torch.repeat_interleave(torch.arange(len(counts)), n_vectors)[empty], vectors.device
        )
        vectors = vectors.index_copy(0, places, of_texts[texts].to(vectors.dtype))
    return vectors, n_vectors


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
        counts = features.pop(BATCH).vectors
        rows = features.pop("sentence_embedding")[:, : self.dims]
        if self.normalize:
            rows = torch.nn.functional.normalize(rows, dim=1)
        vectors = torch.nn.utils.rnn.pad_sequence(list(rows.split(counts.tolist())), batch_first=True)
        mask = to_device((torch.arange(vectors.shape[1]) < counts[:, None]).long(), vectors.device)
        for key in ("input_ids", "token_type_ids"):
            features.pop(key, None)
        return {**features, "token_embeddings": vectors, "attention_mask": mask}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save the two settings."""
        self.save_config(output_path)
