"""Text-embedding models for longer documents, and the LongEmbed benchmark for them, inside mteb.

    model = mteb_longembed.extend("intfloat/e5-base-v2", "pi", target_len=4096)
    model = mteb_longembed.load("e5-base+ntk@4096")
    searcher = mteb_longembed.search("e5-base+hybrid")

Importing this package imports neither mteb nor torch. It only ensures that our tasks, benchmarks and model names are
registered as soon as mteb is imported (`autoload.py`).
"""

from . import autoload

# This file runs at the start of every interpreter. Importing typing and __future__ would double its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .comparing.compare import compare as compare
    from .data.sources import Data as Data
    from .encoders.adapt import adapt as adapt
    from .encoders.export import export as export
    from .encoders.load import extend as extend
    from .encoders.load import load as load
    from .encoders.spans import encode_spans as encode_spans
    from .encoders.tuning import tune as tune
    from .encoders.windows import encode_windows as encode_windows
    from .retrieval.opening import open_index as open_index
    from .retrieval.opening import search as search

__version__ = "0.9.0"

#: Names imported on first use, because their modules load torch, sentence-transformers or mteb -> module.
_LATER = {
    "Data": "data.sources",
    "adapt": "encoders.adapt",
    "compare": "comparing.compare",
    "encode_spans": "encoders.spans",
    "encode_windows": "encoders.windows",
    "export": "encoders.export",
    "extend": "encoders.load",
    "load": "encoders.load",
    "open_index": "retrieval.opening",
    "search": "retrieval.opening",
    "tune": "encoders.tuning",
}
__all__ = ["__version__", "register", *_LATER]

#: Register with mteb by hand, if no file runs at Python's start (`MTEB_LONGEMBED_AUTOLOAD=0`).
register = autoload.install
register()


if not TYPE_CHECKING:  # otherwise type checkers would accept every name

    def __getattr__(name):
        if name in _LATER:
            from importlib import import_module

            found = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
