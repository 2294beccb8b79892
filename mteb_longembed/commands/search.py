"""Search your own documents for questions.

Their vectors stay in the store of embeddings, so a second call encodes only what is new.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.commands import JSON
from mteb_longembed.errors import InputError
from mteb_longembed.files import printable

if TYPE_CHECKING:
    from datasets import Dataset
    from mteb.models.model_meta import ModelMeta

    from mteb_longembed.retrieval.searcher import Hit

#: Characters of a passage that are shown without `--full`.
_SHOWN = 240
#: If more than this share of all text is not read, we say so.
_MOST_CUT = 0.1
#: What JSON shows of a hit.
_KEYS = ("id", "score", "start", "end", "passage", "words")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    told = "any name for mteb run -m, such as mini-rope+pcw@32k:vectors=window"
    parser.add_argument("model", metavar="MODEL", help=told)
    parser.add_argument("query", nargs="+", metavar="QUESTION", help="questions")
    told = "documents: JSON Lines, CSV, TSV, Parquet, or a folder of .txt and .md files, or of Parquet files"
    parser.add_argument("--corpus", type=Path, required=True, metavar="FILE_OR_FOLDER", help=told)
    parser.add_argument("-k", type=int, default=5, help="documents for a question (default: 5)")
    told = "the language of the documents, such as deu or zho-Hans; BM25 cuts words by it (default: English)"
    parser.add_argument("--language", metavar="CODE", help=told)
    told = "do not look for the best window of a document that has one vector"
    parser.add_argument("--no-passages", dest="passages", action="store_false", help=told)
    told = "print whole passages, and not what is around their best sentence"
    parser.add_argument("--full", action="store_true", help=told)
    told = "cpu, cuda, cuda:1, mps, ... (default: the best of this machine)"
    parser.add_argument("--device", help=told)
    parser.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Print the best documents of each question.

    Raises:
        InputError: if `k` is below 1, a question is empty, or the model has no such name.
        DataError: if the corpus is empty or breaks a rule.
    """
    if args.k < 1:
        raise InputError(f"-k must be at least 1 document, got {args.k}.")
    if not all(query.strip() for query in args.query):
        raise InputError("a query must be a text with words, got ''.")
    from mteb_longembed.data.check import read_texts
    from mteb_longembed.data.table import ignored_files
    from mteb_longembed.data.text_table import stored_table
    from mteb_longembed.given import without_surrogates
    from mteb_longembed.retrieval.searcher import search

    documents = stored_table(read_texts(args.corpus))
    searcher = search(args.model, device=args.device, passages=args.passages, language=args.language)
    share = _share_cut(searcher.scorer.meta, documents)
    if share > _MOST_CUT:
        _note(
            f"about {100 * share:.0f} % of the text is not read; a name with +pcw@LENGTH reads all (docs/search.md)."
        )
    searcher.read(documents)
    queries = [without_surrogates(query) for query in args.query]
    hits_of = dict(zip(queries, searcher.search(queries, args.k), strict=True))
    if searcher.empty:
        _note(f"left out, because they have no text: {len(searcher.empty):,}, such as {searcher.empty[0]}.")
    if args.corpus.is_dir():
        ignored = [f"{n:,} {what}" for what, n in ignored_files(args.corpus).items()]
        if ignored:
            _note(f"not read: {', '.join(ignored)}.")
    if args.json:
        rows: dict[str, list[dict[str, object]]] = {query: [] for query in hits_of}
        for query, hits in hits_of.items():
            for hit in hits:
                rows[query].append({key: getattr(hit, key) for key in _KEYS})
        print(json.dumps(rows, indent=2))
    else:
        _print(hits_of, args.language or "eng-Latn", full=args.full)
    return 0


def _share_cut(model: ModelMeta, documents: Dataset) -> float:
    """The share of the documents' text that a model does not read, from 0 to 1. Estimated from characters."""
    from mteb_longembed.data.texts import texts_of
    from mteb_longembed.encoders.tokens import estimated_tokens

    lengths = [estimated_tokens(text) for text in chain.from_iterable(texts_of(documents))]
    most = model.max_tokens or max(lengths, default=0)
    return sum(max(length - most, 0) for length in lengths) / max(sum(lengths), 1)


def _print(hits_of: Mapping[str, list[Hit]], language: str, *, full: bool) -> None:
    """The hits of each question, with what answers it."""
    from mteb_longembed.retrieval.passages import excerpt

    for query, hits in hits_of.items():
        if len(hits_of) > 1:
            print(query)
        if not hits:
            print("No document has a word of the question.")
        for rank, hit in enumerate(hits, start=1):
            print(f"{rank}. {hit.score:.3f}  {printable(hit.id)}  characters {hit.start:,} to {hit.end:,}")
            shown = len(hit.passage) if full else _SHOWN
            passage = excerpt(hit.passage, query, shown, language, hit.words.values())
            print(textwrap.indent(textwrap.fill(printable(passage), 100), "   "))
            matched = [f"{asked} -> {word}" for asked, word in hit.words.items() if asked != word]
            if matched:
                print(f"   {printable(', '.join(matched))}")


def _note(text: str) -> None:
    """Say something on standard error, where it is not in the way of JSON."""
    print(f"mteb-longembed: {printable(text)}", file=sys.stderr)
