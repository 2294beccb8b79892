"""Parallel context windows: encode each window of a document on its own, and average the vectors."""

from dataclasses import dataclass
from typing import ClassVar

from mteb_longembed.errors import InputError

from .strategy import Strategy, Tensor, parameter


@dataclass(frozen=True, kw_only=True)
class ParallelContextWindows(Strategy):
    """Windows of `size` tokens, each with the special tokens and the prompt; pooled vectors are averaged.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1; Ratner et al. 2023, arXiv:2212.10947. DICE (Lyu et al.
        2026, arXiv:2606.18781) is `size=1024`, by its authors' code (PunchlineAAAA/DICE).
    Differs: the authors' code decodes chunks back to text, prepends a fixed prompt and truncates again, which
        loses about two tokens of each chunk. Here every token is read, and the last window moves back so that it is
        full. `size` and `overlap` are ours. With a `size`, a document that is longer than it is cut.

    Args:
        size: tokens of a window, with prompt and special tokens; default the trained length.
        overlap: content tokens that a window shares with the one before it; below the content tokens of a window.

    Example:
        >>> windows = ParallelContextWindows(trained_len=4, target_len=32).windows(7, prefix=1, suffix=1)
        >>> windows.tolist()
        [[0, 1, 2, 6], [0, 3, 4, 6], [0, 4, 5, 6]]
    """

    KEY: ClassVar[str] = "pcw"
    MOVES: ClassVar[bool] = False
    CUTS: ClassVar[bool] = True

    logn: bool = parameter(False, "must be off: a window never exceeds the trained length")
    size: int = parameter(None, "tokens of a window (default: the trained length)")
    overlap: int = parameter(0, "content tokens shared with the window before")

    def defaults_by_length(self) -> dict[str, object]:
        return {"size": self.trained_len}

    def unchanged_len(self, *, rotary: bool = True) -> int:
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

    def windows(self, n: int, prefix: int, suffix: int) -> Tensor:
        """Implement `Strategy.windows`. InputError if a window has no room for content beyond the overlap."""
        import torch

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
        content = n - prefix - suffix
        last = max(content - room, 0)
        step = room - self.overlap
        # the last window moves back: the first start that is at or after `last` becomes `last`
        starts = torch.arange(0, last + step, step).clamp(max=last)
        body = prefix + starts[:, None] + torch.arange(min(room, content))
        head = torch.arange(prefix).expand(len(starts), -1)
        tail = torch.arange(n - suffix, n).expand(len(starts), -1)
        return torch.cat([head, body, tail], dim=1)
