"""`mteb-longembed search`: the best documents of one's own files for a question."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.commands import DEVICE, JSON, Options
from mteb_longembed.errors import DataError, InputError, LongEmbedError
from mteb_longembed.plugin.command_line import check_model
from mteb_longembed.reports.safe_files import printable

if TYPE_CHECKING:
    from mteb_longembed.retrieval.searcher import Searcher

#: Characters of a passage that are shown.
_SHOWN = 240
#: Documents are encoded in so many parts, of at least so many documents, if no store keeps each batch.
_PARTS, _LEAST = 20, 64
#: What JSON shows of a hit.
_KEYS = ("id", "score", "start", "end", "passage")
DESCRIPTION = (
    "Search your own documents. They are encoded once; a second call with the same documents and model encodes only "
    "the question, and documents that changed. Without a question the index is built."
)
OPTIONS: Options = {"": [
    ("model", {"nargs": "?"}, "any name for mteb run -m, such as mini-rope+pcw:size=128,vectors=window"),
    ("query", {"nargs": "*"}, "questions"),
    ("--corpus", {"type": Path},
     "documents: JSON Lines, CSV, TSV, Parquet, or a folder of .txt and .md files"),
    ("--index", {"metavar": "DIR", "type": Path}, "keep the index here (default: the user's cache)"),
    ("-k", {"type": int, "default": 5}, "documents for a question (default: 5)"),
    ("--no-passages", {"dest": "passages", "action": "store_false"},
     "do not look for the best window of a document that has one vector"),
    ("--clear", {"action": "store_true"}, "remove all indexes from the user's cache"),
    DEVICE,
    JSON,
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Print the best documents of each question."""
    if args.clear:
        return _clear(_cache())
    if args.model is None or args.corpus is None:
        raise InputError("search needs a model and --corpus with the documents, or --clear alone.")
    if args.k < 1:
        raise InputError(f"-k must be at least 1 document, got {args.k}.")
    if not all(query.strip() for query in args.query):
        raise InputError("a query must be a text with words, got ''.")
    check_model(args.model)
    from mteb_longembed.encoders.tokenizing import without_surrogates
    from mteb_longembed.hub import silence
    from mteb_longembed.tasks.data_files import ignored_files, read_documents

    documents = read_documents(args.corpus)
    if not documents:
        raise InputError(f"{args.corpus} must hold documents, got none.")
    # a sentence of ours says what was read, and does not cut into the bar
    with silence("mteb_longembed.encoders.engine.truncation"):
        searcher = _searcher(args, documents)
        queries = list(map(without_surrogates, args.query))
        hits_of = dict(zip(queries, searcher.search(queries, args.k), strict=True)) if queries else {}
    if searcher.empty:
        _note(f"left out, because they have no text: {len(searcher.empty):,}, such as {searcher.empty[0]}.")
    if args.corpus.is_dir() and (ignored := ignored_files(args.corpus)):
        _note(f"not read: {', '.join(f'{n:,} {what}' for what, n in ignored.items())}.")
    if args.json:
        hits_json = {
            query: [{key: getattr(hit, key) for key in _KEYS} for hit in hits]
            for query, hits in hits_of.items()
        }
        print(json.dumps(hits_json, indent=2))
        return 0
    if not hits_of:
        n_documents = len(searcher) - len(searcher.empty)
        print(f"{searcher.protocol.mteb_model_meta.name}: {n_documents:,} documents are indexed.")
    for query, hits in hits_of.items():
        if len(hits_of) > 1:
            print(query)
        for rank, hit in enumerate(hits, start=1):
            print(f"{rank}. {hit.score:.3f}  {printable(hit.id)}  characters {hit.start:,} to {hit.end:,}")
            passage = printable(textwrap.shorten(hit.passage, _SHOWN))
            print(textwrap.indent(textwrap.fill(passage, 100), "   "))
    return 0


def _searcher(args: argparse.Namespace, documents: Mapping[str, str]) -> Searcher:
    """The searcher with exactly these documents. Only those that its index lacks are encoded."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    from mteb_longembed.retrieval.index_files import CURRENT, read_index
    from mteb_longembed.retrieval.searcher import fill, search

    searcher = search(args.model, device=args.device, passages=args.passages)
    made_by, folder = searcher.indexed_model(_cache()), args.index
    if folder is None:
        key = json.dumps([str(args.corpus.resolve()), made_by.name, made_by.folder])
        folder = _cache() / hashlib.sha256(key.encode()).hexdigest()[:32]
        # documents are private: only their owner may read the cache
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.parent.chmod(0o700)
    indexed: Mapping[str, str] = {}
    if (folder / CURRENT).is_file():
        try:
            stored = read_index(folder)
            if not stored.model.is_named_as(made_by):
                raise InputError(
                    f"the index in {folder} is of {stored.model.name}, got {made_by.name}: give another --index."
                )
            fill(searcher, stored, folder)
            indexed = stored.texts
        except DataError:
            if args.index is not None:
                raise
            (folder / CURRENT).unlink()  # damaged, or of an earlier state of the model
    new = [key for key, text in documents.items() if indexed.get(key) != text]
    _note(f"{len(new):,} of {len(documents):,} documents are new or changed.")
    if indexed != documents:
        # a killed call goes on: the store keeps each batch; a model without one has its finished parts in the index
        has_store = getattr(getattr(searcher.protocol, "embedder", None), "store", None) is not None
        size = max(len(new), 1) if has_store else max(-(-len(new) // _PARTS), _LEAST)
        parts = range(0, len(new), size)
        try:
            searcher.remove(key for key in indexed if key not in documents)
            for start in tqdm(parts, "Encoding", disable=has_store or not sys.stderr.isatty(), unit=" parts"):
                part = new[start : start + size]
                searcher.upsert(part, [documents[key] for key in part])
            reading = getattr(getattr(searcher.protocol, "embedder", None), "reading", None)
            if reading is not None and reading.tokens_read < reading.tokens:
                _note(f"the model {reading}.")
        finally:
            try:
                searcher.save(folder)
            except LongEmbedError as error:  # the answer is there all the same
                _note(str(error))
    return searcher


def _note(text: str) -> None:
    print(f"mteb-longembed: {printable(text)}", file=sys.stderr)


def _cache() -> Path:
    from mteb_longembed.encoders.store.store import user_cache

    return user_cache() / "mteb-longembed" / "search"


def _clear(cache: Path) -> int:
    files = [file for file in cache.glob("*/*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    n_indexes = len({file.parent for file in files})
    if cache.is_dir():
        shutil.rmtree(cache)
    print(f"{cache}: {n_indexes:,} indexes with {size / 2**20:,.1f} MiB are removed.")
    return 0
