"""Parallel context windows: encode windows of the trained length and average their vectors."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mteb_longembed.errors import InputError

from .base import Strategy


@dataclass(frozen=True, kw_only=True)
class ParallelContextWindows(Strategy):
    """Windows of exactly `Lo` tokens, each with the special tokens and the prompt; pooled vectors are averaged.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1; Ratner et al. 2023, arXiv:2212.10947.
    Differs: the authors' code decodes chunks back to text, prepends a fixed prompt and truncates again, which
        loses about two tokens a chunk; here every token is read. Windows do not overlap, but the last one moves
        back so that it is full.

    Example:
        >>> windows = ParallelContextWindows(trained_len=4, target_len=32).windows(7, prefix=1, suffix=1)
        >>> windows.tolist()
        [[0, 1, 2, 6], [0, 3, 4, 6], [0, 4, 5, 6]]
    """

    logn: bool = field(
        default=False, metadata={"help": "no effect: a window never exceeds the trained length"}
    )

    def check(self) -> None:
        if self.logn:
            raise InputError(
                "pcw takes logn=off only, since no window exceeds the trained length, got logn=on."
            )

    def windows(self, n: int, prefix: int, suffix: int) -> Tensor:
        """See `Strategy.windows`.

        Raises:
            InputError: if prefix and suffix leave no room for content in a window of `Lo` tokens.
        """
        room = self.trained_len - prefix - suffix
        if room < 1:
            raise InputError(
                f"prompt and special tokens must be shorter than the window of {self.trained_len} tokens, "
                f"got {prefix + suffix}; use a shorter prompt."
            )
        content = n - prefix - suffix
        starts = torch.arange(0, content, room).clamp(max=max(content - room, 0))
        body = prefix + starts[:, None] + torch.arange(min(room, content))
        head = torch.arange(prefix).expand(len(starts), -1)
        tail = torch.arange(n - suffix, n).expand(len(starts), -1)
        return torch.cat([head, body, tail], dim=1)
