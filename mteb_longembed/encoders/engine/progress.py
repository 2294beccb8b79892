"""One progress bar for a whole run: tokens done, tokens a second, time left."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]


class TokenBar:
    """Counts tokens; silent where it is not asked for.

    Args:
        total: tokens expected, at first an estimate.
        show: whether there is a bar, also where nobody watches (no terminal).
    """

    def __init__(self, total: int, *, show: bool) -> None:
        self._bar: Any = tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, disable=not show)

    def correct(self, difference: int) -> None:
        """Add to the expected total what turned out to be longer or shorter than estimated."""
        if not self._bar.disable:
            self._bar.total = max(self._bar.total + difference, self._bar.n)
            self._bar.refresh()

    def advance(self, n: int) -> None:
        """Count `n` more tokens as done."""
        self._bar.update(n)

    def __enter__(self) -> TokenBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
