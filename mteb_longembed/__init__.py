"""Text-embedding models for longer documents, and the LongEmbed benchmark for them, inside mteb.

    model = mteb_longembed.extend("intfloat/e5-base-v2", "pi", target_len=4096)
    model = mteb_longembed.load("e5-base+ntk@4096")

Importing this package imports neither mteb nor torch: it only has mteb, once imported, learn our tasks,
benchmark and model names (`autoload.py`).
"""

from . import autoload

# At the start of every interpreter typing and __future__ would take as long as all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .encoders.extend import extend, load

__version__ = "0.1.0"
__all__ = ["__version__", "extend", "load"]

autoload.install()


def __getattr__(name: str) -> "Any":
    if name in ("extend", "load"):
        # a package's attribute before a submodule: torch and sentence-transformers load on first use
        from .encoders import extend as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
