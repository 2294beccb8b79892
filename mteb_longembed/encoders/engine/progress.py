"""One progress bar for a whole run: tokens done, tokens a second, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

#: The bar of a run of many calls; the bars of single calls advance it instead of showing themselves.
_WHOLE: ContextVar[Any] = ContextVar("_WHOLE", default=None)


@contextmanager
def one_bar(total: int, label: str, *, show: bool = True) -> Iterator[None]:
    """Show one bar for all calls of `encode` inside, whichever model they are of.

    Args:
        total: tokens expected over all calls.
        label: what is going on.
        show: False is always silent; nobody sees a bar where there is no terminal.
    """
    disable = None if show else True
    with tqdm(total=total, desc=label, unit=" tokens", unit_scale=True, disable=disable) as bar:
        token = _WHOLE.set(bar)
        try:
            yield
        finally:
            _WHOLE.reset(token)


class TokenBar:
    """Counts tokens; silent where it is not asked for.

    Args:
        total: tokens expected, at first an estimate.
        show: whether there is a bar, also where nobody watches (no terminal).
    """

    def __init__(self, total: int, *, show: bool) -> None:
        self._whole = _WHOLE.get()
        show = show and self._whole is None
        self._bar: Any = tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, disable=not show)

    def correct(self, difference: int) -> None:
        """Add to the expected total what turned out to be longer or shorter than estimated."""
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
