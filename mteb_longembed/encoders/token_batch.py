"""What the trunk says of a batch beside its token embeddings: lengths, content, and windows of texts that were cut."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from mteb_longembed.encoders.features import TOKEN_FEATURES, Features, to_device
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.errors import ModelError

#: Under which name the trunk adds a `TokenBatch` to the features.
BATCH = "token_batch"


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a batch of which some texts were cut. All is on the host.

    Args:
        tokens: `[w, size]` the place of each window's tokens in their text; -1 for padding.
        counts: `[b]` windows of each text.
    """

    tokens: Tensor
    counts: Tensor

    @property
    def texts(self) -> Tensor:
        """`[w]` the number of each window's text."""
        return torch.repeat_interleave(torch.arange(len(self.counts)), self.counts)

    def joined(self, values: Tensor, width: int) -> Tensor:
        """Values of windows' tokens `[w, size, d]` as those of their texts, `[b, width, d]`.

        A token that is in several windows gets the mean of its values in them.
        """
        n_texts = len(self.counts)
        real = self.tokens.flatten() >= 0
        cells = (self.texts[:, None] * width + self.tokens).flatten()[real]
        rows = to_device(real.nonzero()[:, 0], values.device)
        return mean_by(cells, values.flatten(0, 1)[rows], n_texts * width).view(n_texts, width, -1)


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """The texts of a batch, on the host.

    Args:
        bounds: `[b, 3]` as in `features.BOUNDS`.
        windows: if texts were cut; the token features are then those of windows, `[w, size]`.
        weights: how much each token counts, as long as the token features, on the device. None: all the same.
        vectors: `[b]` vectors of each text, once they are pooled.
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
    """Where a text's own tokens start and end, by its row `[3]` of `features.BOUNDS`.

    Raises:
        ModelError: if it is not known.
    """
    n, before, behind = bounds.tolist()
    if before < 0:
        raise ModelError(
            "the tokenizer splits a text differently with and without its special tokens, so windows and spans of "
            "the text cannot have special tokens; use a strategy other than pcw, and one vector."
        )
    return before, max(n - behind, before)


def batch_of(features: Features) -> TokenBatch:
    """What the trunk said of a batch."""
    return cast("TokenBatch", features[BATCH])


def rows_of(features: Features, rows: Tensor) -> Features:
    """The features of some texts of a batch, by their indices on the host."""
    size = len(features["input_ids"])
    return {
        key: value[to_device(rows, value.device)]
        if isinstance(value, Tensor) and value.ndim and len(value) == size
        else value
        for key, value in features.items()
    }


def windows_of(bounds: Tensor, strategy: Strategy) -> Windows:
    """The windows of texts with `bounds` `[b, 3]` as in `features.BOUNDS`; one that is not cut is its own window.

    What stands before and behind the content of a text, each of its windows repeats.
    """
    tokens: list[Tensor] = []
    counts: list[int] = []
    for row in bounds:
        n = int(row[0])
        parts = torch.arange(n)[None]
        if strategy.changes(n):
            start, end = content(row)
            parts = strategy.windows(n, start, n - end)
        tokens.extend(parts)
        counts.append(len(parts))
    padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=-1)
    return Windows(padded, torch.tensor(counts))


def features_of_windows(features: Features, windows: Windows) -> Features:
    """Token features `[b, n]` of texts as those of their windows, `[w, size]`."""
    device = features["input_ids"].device
    # padding reads token 0, and its mask of 0 hides that
    rows = to_device(windows.texts[:, None], device)
    columns = to_device(windows.tokens.clamp(min=0), device)
    cut = {key: value for key, value in features.items() if key not in TOKEN_FEATURES}
    cut.update({key: features[key][rows, columns] for key in TOKEN_FEATURES if key in features})
    mask = (windows.tokens >= 0).to(features["attention_mask"].dtype)
    cut["attention_mask"] = to_device(mask, device)
    return cut


def mean_by(group: Tensor, values: Tensor, groups: int, weights: Tensor | None = None) -> Tensor:
    """Means of `values` `[m, d]` by their group `[m]`, on the host: `[groups, d]`, in fp32 or a wider type.

    `weights` `[m]` are those by which the values are multiplied already. None for a plain mean.
    """
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    total = values.new_zeros(groups, values.shape[1]).index_add_(0, to_device(group, values.device), values)
    if weights is None:
        count = to_device(torch.bincount(group, minlength=groups).clamp(min=1), values.device)
        return total / count[:, None]
    sums = weights.new_zeros(groups).index_add_(0, to_device(group, weights.device), weights)
    return total / sums.clamp(min=1e-9)[:, None]
