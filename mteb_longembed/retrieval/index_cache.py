"""The cache of indexes: a second search of the same documents by the same method encodes nothing.

An index is found by a hash of the method and of the documents, and never changed: other documents are another index,
whose unchanged texts come from the embedding cache.
"""

import tempfile
import warnings
from pathlib import Path

import xxhash

from mteb_longembed.data.check import read_texts
from mteb_longembed.errors import LongEmbedError
from mteb_longembed.files import cache_folder

from .searcher import Searcher
from .storage import Reader

#: The folder of indexes in the cache.
INDEXES = "indexes"


def read_through_cache(searcher: Searcher, corpus: Path) -> Path | None:
    """Read a corpus into an empty searcher, or its index if it is in the cache, and return the folder of that index.

    A cached index that cannot be read or written costs a warning and time, and never the answer. None: nothing is
    cached.
    """
    root = cache_folder()
    if root is None or not searcher.is_savable:
        searcher.read(corpus)
        return None
    folder = root / INDEXES / _key(searcher, corpus)
    try:
        if folder.exists():
            searcher.restore(Reader(folder))
            return folder
    except (LongEmbedError, OSError) as error:
        _warn(folder, error)
    searcher.read(corpus)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as beside:
            searcher.write(Path(beside))
            if not folder.exists():  # another process may have been faster
                Path(beside).rename(folder)
                Path(beside).mkdir()
    except (LongEmbedError, OSError) as error:
        _warn(folder, error)
        return None
    return folder


def is_cached(searcher: Searcher, corpus: Path) -> bool:
    """Return whether the cache has an index of a corpus for a searcher."""
    root = cache_folder()
    return root is not None and searcher.is_savable and (root / INDEXES / _key(searcher, corpus)).exists()


def _key(searcher: Searcher, corpus: Path) -> str:
    """Hash what determines an index: the method with its versions, the language, and the documents."""
    digest = xxhash.xxh3_128(repr(searcher.identity).encode())
    for key, text in read_texts(corpus):
        digest.update(f"{len(key)} {len(text)} {key}{text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _warn(folder: Path, error: Exception) -> None:
    warnings.warn(
        f"the cached index in {folder} cannot be used ({error}), and this search continues without it: "
        "`mteb-longembed cache --clear` removes damaged indexes.",
        RuntimeWarning,
        stacklevel=3,
    )
