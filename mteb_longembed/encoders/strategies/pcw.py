"""Parallel context windows: encode each window of a document on its own, and average the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

from mteb_longembed.errors import InputError

from .strategy import Strategy, parameter

if TYPE_CHECKING:
    import numpy as np
    import torch


@dataclass(frozen=True, kw_only=True)
class ParallelContextWindows(Strategy):
    """Windows of `size` tokens, each with the special tokens and the prompt; pooled vectors are averaged.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1; Ratner et al. 2023, arXiv:2212.10947. Small windows keep
        more of a short passage than windows of the trained length. DICE (Lyu et al. 2026, arXiv:2606.18781) is
        `size=1024,short=cut`, by its authors' code (PunchlineAAAA/DICE). We had its abstract and code, not its full
        text. Its other aggregations were tried, and lose (experiments/tried.md).
    Differs: the authors' code decodes chunks back to text, prepends a fixed prompt and truncates again, which
        loses about two tokens of each chunk. Here every token is read. By default, windows have the trained length
        and do not overlap, as in the paper. The last window moves back so that it is full. `size`, `overlap`,
        `split`, `agg` and `short` are ours.

    Args:
        size: tokens of a window, with prompt and special tokens; default the trained length.
        overlap: content tokens that a window shares with the one before it; below the content tokens of a window.
        split: `token` fills every window. With `sentence` or `paragraph` a window has as many whole ones as fit; one
            that is longer is cut by tokens, and no window moves back.
        agg: how the pooled vectors are joined: `mean`; or `mean-normalized`, each divided by its length (norm) first.
        short: `keep` never cuts documents of at most the trained length; `cut` never cuts documents of at most `size`
            tokens.

    Example:
        >>> windows = ParallelContextWindows(trained_len=4, target_len=32).windows(7, prefix=1, suffix=1)
        >>> windows.tolist()
        [[0, 1, 2, 6], [0, 3, 4, 6], [0, 4, 5, 6]]
        >>> halves = ParallelContextWindows(trained_len=16, target_len=32, size=6, overlap=2)
        >>> halves.windows(8, prefix=1, suffix=1).tolist()
        [[0, 1, 2, 3, 4, 7], [0, 3, 4, 5, 6, 7]]
    """

    KEY: ClassVar[str] = "pcw"

    logn: bool = parameter(False, "must be off: a window never exceeds the trained length")
    size: int = parameter(None, "tokens of a window (default: the trained length)")
    overlap: int = parameter(0, "content tokens shared with the window before")
    split: Literal["token", "sentence", "paragraph"] = parameter(
        "token", "where windows end: when they are full, or after a whole sentence or paragraph"
    )
    agg: Literal["mean", "mean-normalized"] = parameter("mean", "how the windows' vectors are joined")
    short: Literal["keep", "cut"] = parameter(
        "keep", "inputs up to the trained length: keep them whole, or cut them too"
    )

    def defaults_by_length(self) -> dict[str, object]:
        return {"size": self.trained_len}

    @property
    def whole_len(self) -> int:
        if self.short == "keep":
            return self.trained_len
        return self.size

    def check(self) -> None:
        if self.logn:
            raise InputError(
                "pcw takes only logn=off, because no window exceeds the trained length, got logn=on: leave it out."
            )
        if not 2 <= self.size <= self.trained_len:
            raise InputError(
                f"pcw's size must be from 2 to the trained length of {self.trained_len} tokens, got {self.size}."
            )
        if not 0 <= self.overlap < self.size:
            raise InputError(
                f"pcw's overlap must be at least 0 and below its size of {self.size} tokens, got {self.overlap}."
            )
        if self.overlap and self.split != "token":
            raise InputError(
                f"pcw's overlap needs split=token, got overlap={self.overlap} with split={self.split}: leave out one."
            )

    def windows(self, n: int, prefix: int, suffix: int) -> torch.Tensor:
        """See `Strategy.windows`. InputError if a window has no room for content, or for not more than the overlap."""
        room = self.size - prefix - suffix
        if room < 1:
            raise InputError(
                f"prompt and special tokens must be shorter than the window of {self.size} tokens, "
                f"got {prefix + suffix}; use a shorter prompt."
            )
        if self.overlap >= room:
            raise InputError(
                f"pcw's overlap must be below the {room} content tokens of a window of {self.size} tokens "
                f"(prompt and special tokens take {prefix + suffix}), got {self.overlap}."
            )
        return full_windows(n, prefix, suffix, self.size, self.overlap)

    def windows_at(self, starts: np.ndarray | None, n: int, prefix: int, suffix: int) -> torch.Tensor:
        """See `Strategy.windows_at`. InputError also if `split` has to know where sentences start, and does not."""
        import torch

        full_windows = self.windows(n, prefix, suffix)
        if self.split == "token":
            return full_windows
        if starts is None:
            raise InputError(
                f"split={self.split} needs texts and a tokenizer that gives offsets, got token ids: use split=token."
            )
        edges = [prefix]
        stop = n - suffix
        while (full := edges[-1] + self.size - prefix - suffix) < stop:
            edges.append(next((i for i in range(full, edges[-1], -1) if starts[i]), full))
        head = torch.arange(prefix)
        tail = torch.arange(stop, n)
        windows = [torch.cat([head, torch.arange(*edge), tail]) for edge in pairwise([*edges, stop])]
        return torch.nn.utils.rnn.pad_sequence(windows, batch_first=True, padding_value=-1)


def full_windows(n: int, prefix: int, suffix: int, size: int, overlap: int) -> torch.Tensor:
    """Token indices of windows of `size` tokens over a document of `n`, `[w, size]`; the last one moves back."""
    import torch

    room = size - prefix - suffix
    content = n - prefix - suffix
    last = max(content - room, 0)
    step = room - overlap
    # the first start that is at or after `last` becomes `last`
    starts = torch.arange(0, last + step, step).clamp(max=last)
    body = prefix + starts[:, None] + torch.arange(min(room, content))
    head = torch.arange(prefix).expand(len(starts), -1)
    tail = torch.arange(n - suffix, n).expand(len(starts), -1)
    return torch.cat([head, body, tail], dim=1)
