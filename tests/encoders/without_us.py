"""Stock libraries as they are where our package is not installed."""

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from transformers import AttentionInterface, AttentionMaskInterface


@contextmanager
def without_us() -> Iterator[None]:
    """Inside, nothing can import our package or find its version, and transformers has none of our functions."""
    find = importlib.metadata.Distribution.from_name

    def from_name(name: str) -> importlib.metadata.Distribution:
        if name.replace("_", "-") == "mteb-longembed":
            raise importlib.metadata.PackageNotFoundError(name)
        return find(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.metadata.Distribution, "from_name", staticmethod(from_name))
        for name in ["mteb_longembed", *sys.modules]:
            if name.partition(".")[0] == "mteb_longembed":
                patch.setitem(sys.modules, name, None)
        for registry in (AttentionInterface, AttentionMaskInterface):
            for name in list(registry._global_mapping):
                if name.startswith("longembed"):
                    patch.delitem(registry._global_mapping, name)
        yield
