"""The bars of tokens that `encode` shows: one for each call, or one for all calls of a run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from tqdm.auto import tqdm  # type: ignore[import-untyped]

#: The bar of a run with many calls. Calls inside it show no bar of their own but advance this one.
_RUN_BAR: ContextVar[tqdm | None] = ContextVar("_RUN_BAR", default=None)


@contextmanager
def shared_bar(bar: tqdm) -> Iterator[None]:
    """Calls of `encode` inside show no bar of their own but advance this one, by their tokens."""
    token = _RUN_BAR.set(bar)
    try:
        yield
    finally:
        _RUN_BAR.reset(token)


def no_bar() -> AbstractContextManager[None]:
    """What is encoded inside is no part of a run's tokens, so it does not advance its bar."""
    return shared_bar(tqdm(disable=True))


class TokenBar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar of tokens, which also shows without a terminal. Inside `shared_bar` it advances that bar instead."""

    def __init__(self, total: int, *, show: bool) -> None:
        self.total: float
        self.run_bar = _RUN_BAR.get()
        hidden = not show or self.run_bar is not None
        options = {"unit": " tokens", "unit_scale": True, "smoothing": 0, "disable": hidden}
        super().__init__(total=total, desc="Encoding", **options)

    def skip(self, n: int) -> None:
        """Leave tokens that the store has out of the speed, from which tqdm computes the time left."""
        for bar in (self, self.run_bar):
            if bar is not None and not bar.disable:
                bar.initial += n

    def correct(self, difference: int) -> None:
        """Add to the expected total the difference between the real and the estimated number of tokens."""
        if not self.disable:
            self.total = max(self.total + difference, self.n)
            self.refresh()

    def update(self, n: float = 1) -> None:
        super().update(n)
        if self.run_bar is not None and not self.run_bar.disable:
            # the total of a run is an estimate, and beyond it tqdm would show no share
            self.run_bar.total = max(self.run_bar.total, self.run_bar.n + n)
            self.run_bar.update(n)
