"""One progress bar for a whole run: tokens done, tokens a second, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

#: The bar of a run with many calls. Calls inside it show no bar of their own but advance this one.
_WHOLE: ContextVar[Any] = ContextVar("_WHOLE", default=None)


@contextmanager
def one_bar(total: int, label: str, *, show: bool = True) -> Iterator[None]:
    """Show one bar for all calls of `encode` inside, of any models.

    Args:
        total: tokens expected over all calls.
        label: the text before the bar.
        show: False shows no bar. Without a terminal there is never one.
    """
    disable = None if show else True
    with tqdm(total=total, desc=label, unit=" tokens", unit_scale=True, disable=disable) as bar:
        token = _WHOLE.set(bar)
        try:
            yield
        finally:
            _WHOLE.reset(token)


class TokenBar:
    """Counts tokens, and shows a progress bar if it should.

    Args:
        total: expected tokens, at first an estimate.
        show: whether there is a bar, also without a terminal.
    """

    def __init__(self, total: int, *, show: bool) -> None:
        self._whole = _WHOLE.get()
        show = show and self._whole is None
        self._bar: Any = tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, disable=not show)

    def correct(self, difference: int) -> None:
        """Add to the expected total the difference between the real and the estimated number of tokens."""
        if not self._bar.disable:
            self._bar.total = max(self._bar.total + difference, self._bar.n)
            self._bar.refresh()

    def advance(self, n: int) -> None:
        """Count `n` more tokens as done."""
        self._bar.update(n)
        if self._whole is not None:
            self._whole.update(n)

    def __enter__(self) -> TokenBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
