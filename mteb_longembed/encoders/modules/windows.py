"""Documents that are too long for one pass as windows, and from these back to their vectors and tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mteb_longembed.encoders import features as keys
from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.strategies import Strategy


def rows_of(features: Features, rows: Tensor) -> Features:
    """The features of some texts of a batch, by their indices on the host."""
    size = len(features["input_ids"])
    return {
        key: value[to_device(rows, value.device)]
        if isinstance(value, Tensor) and value.ndim and len(value) == size
        else value
        for key, value in features.items()
    }


def split_windows(
    features: Features, lengths: Tensor, ends: Sequence[tuple[int, int]], strategy: Strategy
) -> tuple[Features, Tensor]:
    """Replace documents by their windows: `[b, n]` token features become `[w, size]`.

    Adds `WINDOW_TOKENS` and `WINDOW_COUNTS`. From these, `WindowPooling` joins the windows of each document. Returns
    also the tokens of each window `[w]`.

    Args:
        features: of a batch, with token features `[b, n]`.
        lengths: `[b]` tokens of each document, on the host.
        ends: for each document the numbers of tokens at its start and end that every part of it repeats.
        strategy: cuts windows.
    """
    tokens: list[Tensor] = []
    counts: list[int] = []
    for n, (prefix, suffix) in zip(lengths.tolist(), ends, strict=True):
        parts = torch.arange(n)[None]
        if n > strategy.whole_len:
            parts = strategy.windows(n, prefix, suffix)
        tokens.extend(parts)
        counts.append(len(parts))
    index = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=-1)
    device = features["input_ids"].device
    document = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    # padding reads token 0, and its mask of 0 hides that
    rows = to_device(document[:, None], device)
    columns = to_device(index.clamp(min=0), device)
    real = index >= 0
    windows = {key: value for key, value in features.items() if key not in keys.TOKEN_FEATURES}
    windows.update({key: features[key][rows, columns] for key in keys.TOKEN_FEATURES if key in features})
    windows["attention_mask"] = to_device(real.to(features["attention_mask"].dtype), device)
    windows[keys.WINDOW_TOKENS] = index
    windows[keys.WINDOW_COUNTS] = torch.tensor(counts)
    return windows, real.sum(1)


def joined_tokens(tokens: Tensor, index: Tensor, counts: Tensor, shape: tuple[int, int]) -> Tensor:
    """The tokens of windows `[w, size, d]` as those of their documents, `[b, n, d]` for a `shape` of `(b, n)`.

    A token that is in several windows gets the mean of its embeddings in them.

    Args:
        tokens: `[w, size, d]` on any device.
        index: `[w, size]` the place of each token in its document, below 0 for one that does not count; on the host.
        counts: `[b]` windows of each document, on the host.
        shape: `(b, n)` of the documents.
    """
    b, n = shape
    document = torch.repeat_interleave(torch.arange(b), counts)
    real = index.flatten() >= 0
    cells = (document[:, None] * n + index).flatten()[real]
    rows = to_device(real.nonzero()[:, 0], tokens.device)
    return mean_by(cells, tokens.flatten(0, 1)[rows], b * n).view(b, n, -1)


def mean_by(group: Tensor, values: Tensor, groups: int, weights: Tensor | None = None) -> Tensor:
    """Means of `values` `[m, d]` by their group `[m]`, on the host: `[groups, d]`, in fp32 or a wider type.

    Args:
        group: `[m]` the group of each value, on the host.
        values: `[m, d]`.
        groups: number of groups.
        weights: `[m]` weights by which the values are multiplied already. None for a plain mean.
    """
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    total = values.new_zeros(groups, values.shape[1]).index_add_(0, to_device(group, values.device), values)
    if weights is None:
        count = to_device(torch.bincount(group, minlength=groups).clamp(min=1), values.device)
        return total / count[:, None]
    sums = weights.new_zeros(groups).index_add_(0, to_device(group, weights.device), weights)
    return total / sums.clamp(min=1e-9)[:, None]
