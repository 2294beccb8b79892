"""Indexes in the user's cache: a second search of the same corpus encodes only changed documents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mteb_longembed.errors import IndexFolderError
from mteb_longembed.files import cache_folder

from .opening import open_index
from .searcher import Searcher
from .storage import holds_index

#: The folder of indexes in the cache.
INDEXES = "indexes"


def kept_index(
    corpus: Path,
    key: Iterable[object],
    make: Callable[[], Searcher],
    device: str | None = None,
    *,
    passages: bool = True,
    use_cache: bool = True,
) -> tuple[Searcher, Path | None]:
    """Return a searcher of a corpus, from the cache if it is there and up to date.

    Args:
        corpus: a file or folder, as for `Searcher.read`.
        key: the other inputs of the index: the name and the language.
        make: returns an empty searcher.
        device: device of the model.
        passages: as for `open_index`.
        use_cache: whether to look for the index in the cache, and to keep it there.

    Returns:
        The searcher, and the folder of its index; None if the cache is not used or the searcher cannot be saved.
    """
    root = cache_folder()
    folder = None
    if root is not None and use_cache:
        text = repr([*key, str(corpus.absolute())])
        folder = root / INDEXES / hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        if holds_index(folder):
            try:
                searcher = open_index(folder, device=device, passages=passages)
                if searcher.source != fingerprint(corpus):
                    _update(searcher, corpus)
                return searcher, folder
            except IndexFolderError:
                _remove(folder)  # of another version, or damaged: built again
    searcher = make()
    source = fingerprint(corpus)
    searcher.read(corpus)
    if folder is None or not searcher.can_be_saved:
        return searcher, None
    searcher.source = source
    searcher.save(folder)
    return searcher, folder


def _update(searcher: Searcher, corpus: Path) -> None:
    """Add, replace and remove the documents that differ between an index and its corpus."""
    from mteb_longembed.data.check import read_texts

    known = dict(searcher.texts())
    changed: dict[str, str] = {}
    present = set()
    source = fingerprint(corpus)
    for key, text in read_texts(corpus):
        present.add(key)
        if known.get(key) != text:
            changed[key] = text
    searcher.source = source
    searcher.change(known.keys() - present, changed)


def fingerprint(corpus: Path) -> list[list[object]]:
    """Return a cheap fingerprint of the files of a corpus: their names, sizes and modification times."""
    files = [corpus]
    if corpus.is_dir():
        files = sorted(path for path in corpus.rglob("*") if path.is_file())
    entries: list[list[object]] = []
    for path in files:
        facts = path.stat()
        entries.append([os.fspath(path.absolute()), facts.st_size, facts.st_mtime_ns])
    return entries


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
