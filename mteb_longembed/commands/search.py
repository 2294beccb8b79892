"""`mteb-longembed search`: the best documents of one's own files for a question."""

from __future__ import annotations

import argparse
import hashlib
import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mteb_longembed.commands import DEVICE, JSON, Options, silence
from mteb_longembed.errors import InputError
from mteb_longembed.plugin.command_line import check_model

#: Characters of a passage that are shown.
_SHOWN = 240
DESCRIPTION = (
    "Search your own documents. They are encoded once; a second call with the same documents and model encodes only "
    "the question. Without a question the index is built."
)
OPTIONS: Options = {"": [
    ("model", {}, "any name for mteb run -m, such as mini-rope+pcw:size=128,vectors=window"),
    ("query", {"nargs": "*"}, "questions"),
    ("--corpus", {"required": True, "type": Path},
     "documents: JSON Lines, CSV, TSV, Parquet, or a folder of .txt and .md files"),
    ("--index", {"metavar": "DIR", "type": Path}, "keep the index here (default: the user's cache)"),
    ("-k", {"type": int, "default": 5}, "documents for a question (default: 5)"),
    DEVICE,
    JSON,
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Print the best documents of each question."""
    if args.k < 1:
        raise InputError(f"-k must be at least 1 document, got {args.k}.")
    check_model(args.model)
    from mteb_longembed.tasks.data_files import read_documents

    documents = read_documents(args.corpus)
    if not documents:
        raise InputError(f"{args.corpus} must hold documents, got none.")
    with silence():
        searcher = _searcher(args, documents)
        found = {query: searcher.search(query, args.k) for query in args.query}
    if args.json:
        print(json.dumps({query: list(map(asdict, hits)) for query, hits in found.items()}, indent=2))
        return 0
    if not found:
        print(f"{searcher.protocol.mteb_model_meta.name}: {len(searcher):,} documents are indexed.")
    for query, hits in found.items():
        if len(found) > 1:
            print(f"{query}")
        for place, hit in enumerate(hits, start=1):
            print(f"{place}. {hit.score:.3f}  {hit.id}  characters {hit.start:,} to {hit.end:,}")
            print(textwrap.indent(textwrap.fill(textwrap.shorten(hit.passage, _SHOWN), 100), "   "))
    return 0


def _searcher(args: argparse.Namespace, documents: dict[str, str]) -> Any:
    """The searcher with exactly these documents. Only those that its index lacks are encoded."""
    import mteb

    from mteb_longembed.encoders.store.store import user_cache
    from mteb_longembed.retrieval.index_files import CURRENT, read_index
    from mteb_longembed.retrieval.searcher import from_stored, search

    meta = mteb.get_model_meta(args.model)
    folder: Path | None = args.index
    if folder is None:
        digest = hashlib.sha256(
            json.dumps([CURRENT, meta.name, meta.revision, list(documents.items())]).encode()
        )
        folder = user_cache() / "mteb-longembed" / "search" / digest.hexdigest()[:32]
    if not (folder / CURRENT).is_file():
        searcher = search(args.model, device=args.device)
        searcher.add(list(documents), list(documents.values()))
        searcher.save(folder)
        return searcher
    stored = read_index(folder)
    if stored.name != meta.name:
        raise InputError(f"the index in {folder} is of {stored.name}, got {meta.name}: give another --index.")
    searcher = from_stored(stored, args.device)
    gone = [key for key, text in stored.texts.items() if documents.get(key) != text]
    new = [key for key, text in documents.items() if stored.texts.get(key) != text]
    if gone or new:
        searcher.remove(gone)
        searcher.add(new, [documents[key] for key in new])
        searcher.save(folder)
    return searcher
