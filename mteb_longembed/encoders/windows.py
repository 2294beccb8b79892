"""From the windows of documents back to the documents: their vectors, and their tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .attention.devices import to_device


def aggregated(pooled: Tensor, counts: Tensor, agg: str) -> Tensor:
    """One vector for each document `[b, d]`, from pooled windows `[w, d]` and their numbers `[b]`, on the host.

    A document of one window keeps its vector, which is that of the base.
    """
    if agg in _JOINED:
        return torch.stack([_JOINED[agg](own.float()) for own in pooled.split(counts.tolist())])
    document = torch.repeat_interleave(torch.arange(len(counts)), counts)
    if agg == "mean-normalized":
        unit = torch.nn.functional.normalize(pooled.float(), dim=1)
        several = to_device((counts[document] > 1)[:, None], pooled.device)
        pooled = torch.where(several, unit, pooled.float())
    return mean_by(document, pooled, len(counts))


#: Aggregation -> one document's vector `[d]` from its windows `[w, d]`; averages are made for all documents at once.
_JOINED: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda windows: windows.amax(0),
    "norm-topk": lambda windows: windows[windows.norm(dim=1).topk(min(3, len(windows))).indices].mean(0),
    "norm-softmax": lambda windows: windows.norm(dim=1).softmax(0) @ windows,
}


def most_context(windows: Tensor, prefix: int, suffix: int) -> Tensor:
    """The windows `[w, size]` of a document, with -1 for content that has more context in another one.

    A token's context is the smaller number of content tokens beside it in the window; at the ends of the document
    nothing is missing. Of two windows with as much of it the first counts.
    """
    if len(windows) == 1:
        return windows
    inside = slice(prefix, windows.shape[1] - suffix)
    content = windows[:, inside]
    left = torch.arange(content.shape[1]).repeat(len(windows), 1)
    right = left.flip(1)
    left[0] = right[-1] = sys.maxsize
    context, number = torch.minimum(left, right), torch.arange(len(windows))[:, None].expand_as(content)
    n = int(windows.max()) + 1
    most = torch.full((n,), -1).scatter_reduce(0, content.flatten(), context.flatten(), "amax")
    best = context == most[content]
    first = torch.full((n,), sys.maxsize).scatter_reduce(0, content[best], number[best], "amin")
    chosen = windows.clone()
    chosen[:, inside][first[content] != number] = -1
    return chosen


def joined_tokens(tokens: Tensor, index: Tensor, counts: Tensor, shape: Any) -> Tensor:
    """The tokens of windows `[w, size, d]` as those of their documents, `[b, n, d]` for a `shape` of `(b, n)`.

    Args:
        tokens: embeddings. A token that is in several windows gets the mean of its embeddings in them.
        index: the place of each in its document `[w, size]`, below 0 for one that does not count, on the host.
        counts: windows of each document `[b]`, on the host.
        shape: documents and tokens.
    """
    b, n = shape
    document = torch.repeat_interleave(torch.arange(b), counts)
    real = index.flatten() >= 0
    places = (document[:, None] * n + index).flatten()[real]
    rows = to_device(real.nonzero()[:, 0], tokens.device)
    return mean_by(places, tokens.flatten(0, 1)[rows], b * n).view(b, n, -1)


def mean_by(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """Means of `values` `[m, d]` by their group `[m]`, on the host: `[groups, d]`, in fp32 or a wider type."""
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    total = values.new_zeros(groups, values.shape[1]).index_add_(0, to_device(group, values.device), values)
    count = torch.bincount(group, minlength=groups).clamp(min=1)
    return total / to_device(count, values.device)[:, None]
