"""The bar of a comparison: the tokens that all its passes are expected to read."""

import sys
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]


class RunBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar in which a part never counts for more than was expected of it, and in the end for all of that.

    What is expected is an estimate. So the total stays the whole, and all of it is reached when the last part ends.
    """

    def __init__(self, *, show: bool) -> None:
        # the time left is by the speed of the whole run: that of the last seconds differs from strategy to strategy
        options: dict[str, Any] = {"unit": " tokens", "unit_scale": True, "smoothing": 0, "disable": not show}
        # a file of output gets a line now and then
        if not sys.stderr.isatty():
            options["mininterval"] = 30.0
        self._end = 0
        # its total is not yet known, so nothing is shown before the first part begins
        super().__init__(total=0, delay=1e-9, **options)

    def begin(self, n_tokens: int) -> None:
        """Begin a part of so many expected tokens."""
        self._end = self.n + n_tokens

    def update(self, n: float = 1) -> None:
        super().update(max(min(n, self._end - self.n), 0))

    def finish(self) -> None:
        """End a part."""
        self.update(self._end - self.n)
