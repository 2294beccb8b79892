"""From token embeddings to the vectors of a document: one per window, one per span of tokens, or a single one.

Source: on extended positions, spans of tokens are late chunking (Günther et al. 2024, arXiv:2409.04701): the
    transformer reads the whole document, and spans of its token embeddings are averaged afterwards.
Differs: spans have a fixed number of tokens. In the paper a text splitter makes them, as in `encode_spans`.

`LongPooling` replaces the base's pooling. It passes one row for each vector to the base's remaining modules (Dense,
Normalize), which need not know about documents. `GroupByDocument` is the last module of a model with several vectors.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError, ModelError
from mteb_longembed.values import Vectors, read

from .devices import to_device

#: Input and output of a module, as in sentence-transformers: tensors and settings by name.
Features = dict[str, Any]
#: Features with one value for each token. Windows cut them, and padding fills them with zeros.
TOKEN_FEATURES = ("input_ids", "attention_mask", "token_type_ids")
#: Feature that `LongTransformer` reads: `[b, 3]` int64, for each text its tokens, the special and prompt tokens before
#: its content, and the special tokens after it (both -1 if not known). It stays on the host.
BOUNDS = "token_bounds"
#: Feature with the `TokenBatch`, which `LongTransformer` adds.
BATCH = "token_batch"
#: Features of a model with logits: the batches of windows, which the pooling runs, and the pooled vectors of each
#: text's windows `[windows, terms]`.
RUNS = "window_runs"
WINDOWS = "window_embeddings"


def check_averages(what: str, model: str, mode: str | None) -> None:
    """Raise IncompatibleError if a model of this pooling mode does not average its tokens; None is not known.

    `what` is the setting that would average them, such as `weights` or `vectors=64`.
    """
    if mode not in (None, "mean"):
        raise IncompatibleError(
            f"{what} averages the tokens of a document, but {model} was trained with {mode} pooling, not mean: use "
            "pcw, vectors=window or whiten, which work with every pooling."
        )


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a batch of texts, on the host.

    Args:
        tokens: `[w, size]` the index of each token of a window in its text; -1 for padding.
        texts: `[w]` the index of each window's text in the batch.
    """

    tokens: Tensor
    texts: Tensor

    @property
    def sizes(self) -> Tensor:
        """`[w]` tokens of each window."""
        return (self.tokens >= 0).sum(1)

    def cells(self, width: int) -> Tensor:
        """Return the index `[w * size]` of each token in the flattened texts `[b * width]`; arbitrary for padding."""
        return (self.texts[:, None] * width + self.tokens).flatten()


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The texts of a batch, on the host. If some were cut, the token features belong to windows, `[w, size]`.

    Args:
        bounds: `[b, 3]` as in `BOUNDS`.
        windows: None if no text was cut.
        weights: the weight of each token, in the shape of the token features, on the device. None: all equal.
        vectors: `[b]` number of vectors of each text, once they are pooled.
    """

    bounds: Tensor
    windows: Windows | None = None
    weights: Tensor | None = None
    vectors: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """`[b]` tokens of each text."""
        return self.bounds[:, 0]

    @property
    def width(self) -> int:
        """Tokens of the longest text."""
        return int(self.lengths.max())


def content(bounds: Tensor) -> tuple[int, int]:
    """Return start and end of a text's own tokens, by its row `[3]` of `BOUNDS`.

    Raises:
        ModelError: if they are not known.
    """
    n, before, after = bounds.tolist()
    if before < 0:
        raise ModelError(
            "the tokenizer splits a text differently with and without its special tokens, so windows and spans of "
            "the text cannot have special tokens; use a strategy other than pcw, and one vector."
        )
    return before, max(n - after, before)


def spans(bounds: Tensor, size: int) -> list[Tensor]:
    """Return the indices of spans of `size` content tokens, by a text's row `[3]` of `BOUNDS`; else all tokens."""
    indices = torch.arange(*content(bounds))
    if not len(indices):
        return [torch.arange(int(bounds[0]))]
    return list(indices.split(size))


def windows_of(bounds: Tensor, strategy: Strategy) -> Windows:
    """Return the windows of texts with `bounds` `[b, 3]` as in `BOUNDS`; a text that is not cut is one window.

    Each window repeats the tokens before and after the content of its text.
    """
    tokens: list[Tensor] = []
    texts: list[int] = []
    for index, row in enumerate(bounds):
        n = int(row[0])
        windows = torch.arange(n)[None]
        if strategy.changes(n):
            start, end = content(row)
            windows = strategy.windows(n, start, n - end)
        tokens.extend(windows)
        texts.extend([index] * len(windows))
    return Windows(pad_sequence(tokens, True, -1), torch.tensor(texts))


def mean_by(group: Tensor, values: Tensor, groups: int, weights: Tensor | None = None) -> Tensor:
    """Average `values` `[m, d]` by their group `[m]`, on the host: `[groups, d]`, in fp32 or a wider type.

    The values are already multiplied by `weights` `[m]`, which is None for a plain mean.
    """
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    if weights is None:
        weights = values.new_ones(len(values))
    group = to_device(group, values.device)
    total = values.new_zeros(groups, values.shape[1]).index_add_(0, group, values)
    sums = weights.new_zeros(groups).index_add_(0, group, weights)
    return total / sums.clamp(min=1e-9)[:, None]


def mean_of_groups(groups: list[Tensor], tokens: Tensor, weights: Tensor | None = None) -> Tensor:
    """Average groups of a text's tokens, given by their indices: `[groups, d]`.

    `tokens` `[n, d]` are the text's tokens, already multiplied by their `weights` `[n]`, if any.
    """
    group_of = torch.arange(len(groups)).repeat_interleave(torch.tensor(list(map(len, groups))))
    indices = to_device(torch.cat(groups), tokens.device)
    if weights is not None:
        weights = weights[indices]
    return mean_by(group_of, tokens[indices], len(groups), weights)


class LongPooling(Pooling):
    """Pools each text, or each of its windows, with the base's own mode: one vector for a document, or several.

    The one vector of a document that was cut is the mean of its windows' vectors; with token weights, it is the
    weighted mean of all its tokens. A query has one vector by default, and so has a text without content.

    Args:
        vectors: content tokens per vector, or `window`. None: one vector.
        late: whether a query has a vector for each content token, as in late interaction. Token embeddings are then
            scaled to length 1 before they are averaged: the product of a query token and a mean is a mean of cosines.
    """

    config_keys = [*Pooling.config_keys, "vectors", "late"]

    def __init__(self, *args: Any, vectors: Vectors | None = None, late: bool = False, **kwargs: Any) -> None:
        late = kwargs.pop("query_tokens", late)  # its name in folders of version 0.8
        super().__init__(*args, **kwargs)
        self.vectors: Vectors | None = read("vectors", Vectors | None, vectors)
        self.late = late
        #: The arguments of `encode` that the forward pass takes: queries have one vector.
        self.forward_kwargs = set() if vectors is None else {"task"}

    def forward(self, features: Features, task: str | None = None, **kwargs: object) -> Features:
        """Add `sentence_embedding` `[vectors, d]`, and to the `TokenBatch` the number of vectors of each text.

        Features of windows become features of their texts.
        """
        batch: TokenBatch = features[BATCH]
        features = super().forward(dict(features), **kwargs)
        vectors: Tensor = features["sentence_embedding"]
        texts = torch.arange(len(batch.bounds))
        wanted = self.vectors
        if task == "query":
            wanted = 1 if self.late else None
        windows = batch.windows
        if windows is not None:
            if wanted == "window":
                texts = windows.texts
            else:
                vectors = mean_by(windows.texts, vectors, len(texts))
            features, batch = _of_texts(features, batch, windows)
            if batch.weights is not None and wanted != "window":
                total = batch.weights.sum(1, keepdim=True).clamp(min=1e-9)
                vectors = features["token_embeddings"].sum(1) / total
        if isinstance(wanted, int):
            groups = [spans(row, wanted) for row in batch.bounds]
            tokens: Tensor = features["token_embeddings"]
            if self.late:
                tokens = torch.nn.functional.normalize(tokens, dim=-1)
            texts = texts.repeat_interleave(torch.tensor(list(map(len, groups))))
            weights: Iterable[Tensor | None] = repeat(None)
            if batch.weights is not None:
                weights = batch.weights
            vectors = torch.cat(list(map(mean_of_groups, groups, tokens, weights)))
        counts = texts.bincount(minlength=len(batch.bounds))
        return {**features, "sentence_embedding": vectors, BATCH: replace(batch, vectors=counts)}


def _of_texts(features: Features, batch: TokenBatch, windows: Windows) -> tuple[Features, TokenBatch]:
    """Turn window features into text features: token embeddings `[b, n, d]`, and token weights.

    A token in several windows gets the mean of its values.
    """
    shape = len(batch.bounds), batch.width
    real = windows.tokens.flatten() >= 0
    cells = windows.cells(batch.width)[real]

    def joined(values: Tensor) -> Tensor:
        rows = to_device(real.nonzero()[:, 0], values.device)
        return mean_by(cells, values.flatten(0, 1)[rows], shape[0] * shape[1]).view(*shape, -1)

    tokens = joined(features["token_embeddings"])
    if batch.weights is not None:
        batch = replace(batch, weights=joined(batch.weights[:, :, None])[:, :, 0])
    kept = {key: value for key, value in features.items() if key not in TOKEN_FEATURES}
    mask = to_device((torch.arange(batch.width) < batch.lengths[:, None]).long(), tokens.device)
    return {**kept, "token_embeddings": tokens, "attention_mask": mask}, batch


def arrays_of(features: Features, device: torch.device, *, several: bool) -> list[Tensor]:
    """Return one array for each text of a batch, on a device, from the features after the last module.

    It is `[d]`, or with `several` vectors `[n, d]`: of spans, windows or tokens. Windows of tokens that were not joined
    are `[windows, size, d]`, with zeros for tokens that do not count.
    """
    if not several:
        return list(features["sentence_embedding"].to(device))
    if WINDOWS in features:
        return [rows.to(device) for rows in features[WINDOWS]]
    if "sentence_embedding" in features:  # a model with logits, and no text was cut
        return list(features["sentence_embedding"][:, None].to(device))
    rows, mask = features["token_embeddings"], features["attention_mask"]
    batch = features.get(BATCH)
    if batch is not None and batch.windows is not None:
        return list((rows * mask[:, :, None]).to(device).split(batch.windows.texts.bincount().tolist()))
    # copied, so that the batch's padding does not stay in memory
    kept = [of_text.nonzero()[:, 0] for of_text in mask.cpu()]
    return [row[to_device(indices, device)] for row, indices in zip(rows.to(device), kept, strict=True)]


def vectors_of(model: Iterable[nn.Module]) -> Vectors | None:
    """Return the content tokens of each vector of one of our models, or `window`; None for one vector."""
    return next((part.vectors for part in model if isinstance(part, LongPooling)), None)


class GroupByDocument(Module):
    """Groups vectors by document: padded `token_embeddings` `[b, v, d]` and their `attention_mask`.

    Args:
        normalize: whether vectors are scaled to length 1, so that their dot product is the cosine.
        dims: number of leading dimensions to keep. None: all.
    """

    config_keys = ["normalize", "dims"]

    def __init__(self, normalize: bool = True, dims: int | None = None) -> None:
        super().__init__()
        self.normalize = normalize
        self.dims = dims

    def forward(self, features: Features, **kwargs: object) -> Features:
        """Replace the features of tokens by the features of vectors."""
        counts = features[BATCH].vectors
        rows = features["sentence_embedding"][:, : self.dims]
        if self.normalize:
            rows = torch.nn.functional.normalize(rows, dim=1)
        vectors = pad_sequence(list(rows.split(counts.tolist())), batch_first=True)
        mask = to_device((torch.arange(vectors.shape[1]) < counts[:, None]).long(), vectors.device)
        dropped = (BATCH, "sentence_embedding", *TOKEN_FEATURES)
        kept = {key: value for key, value in features.items() if key not in dropped}
        return {**kept, "token_embeddings": vectors, "attention_mask": mask}

    def save(
        self, output_path: str, *args: object, safe_serialization: bool = True, **kwargs: object
    ) -> None:
        """Save the two settings."""
        self.save_config(output_path)
