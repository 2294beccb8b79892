"""Search your own documents for questions.

The index is kept in the cache, so a second call encodes only changed documents. `index` saves one to a folder.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mteb_longembed.commands import CORPUS, DEVICE, JSON, check_device_form
from mteb_longembed.commands.forecast import forecast, note, progress
from mteb_longembed.errors import InputError
from mteb_longembed.files import printable

if TYPE_CHECKING:
    from mteb_longembed.data.look import Survey
    from mteb_longembed.retrieval.hit import Hit
    from mteb_longembed.retrieval.searcher import Searcher

#: Maximum characters of a passage without `--full`.
_SHOWN = 240
#: The fields of a hit in JSON.
_KEYS = ("id", "score", "start", "end", "passage", "matched_terms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    text = (
        "a model, which gets its recommended preset; any name for mteb run -m; or the folder of a saved index"
    )
    parser.add_argument("model", metavar="MODEL", help=text)
    parser.add_argument("query", nargs="+", metavar="QUESTION", help="questions")
    parser.add_argument("--corpus", type=Path, metavar="FILE_OR_FOLDER", help=CORPUS)
    parser.add_argument("-k", type=int, default=5, help="documents for a question (default: 5)")
    text = "the language of the documents, such as deu or zho-Hans; BM25 splits text by it (default: English)"
    parser.add_argument("--language", metavar="CODE", help=text)
    text = "do not look for the best window of a document that has one vector"
    parser.add_argument("--no-passages", dest="passages", action="store_false", help=text)
    text = "print whole passages, and not their best sentences alone"
    parser.add_argument("--full", action="store_true", help=text)
    parser.add_argument("--device", help=DEVICE)
    parser.add_argument("--no-cache", dest="cache", action="store_false", help="keep no index")
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
    from mteb_longembed.given import without_surrogates

    if args.json and args.full:
        raise InputError("--json has whole passages: leave out --full.")
    documents = _look(args)
    if args.device is not None:
        from mteb_longembed.encoders.devices import check_device

        check_device(args.device)
    searcher = _searcher(args, documents)
    queries = [without_surrogates(query) for query in args.query]
    hits_of = dict(zip(queries, searcher.search(queries, args.k), strict=True))
    if searcher.empty:
        note(f"left out, because they have no text: {len(searcher.empty):,}, such as {searcher.empty[0]}.")
    if args.corpus is not None and args.corpus.is_dir():
        from mteb_longembed.data.table import ignored_files

        ignored = [f"{n:,} {what}" for what, n in ignored_files(args.corpus).items()]
        if ignored:
            note(f"not read: {', '.join(ignored)}.")
    if args.json:
        rows: dict[str, list[dict[str, object]]] = {query: [] for query in hits_of}
        for query, hits in hits_of.items():
            for hit in hits:
                rows[query].append({key: vars(hit)[key] for key in _KEYS})
        print(json.dumps(rows, indent=2))
    else:
        _print(hits_of, searcher, full=args.full)
    return 0


def _look(args: argparse.Namespace) -> Survey | None:
    """Check all arguments, and count the documents; None for a saved index. No torch, no mteb."""
    from mteb_longembed.data.look import check_exists, survey
    from mteb_longembed.encoders.method import check_name
    from mteb_longembed.files import holds_index
    from mteb_longembed.values import check_language_form

    check_device_form(args.device)
    if holds_index(Path(args.model)):
        if args.corpus is not None:
            raise InputError(f"{args.model} is an index, which has its documents: leave out --corpus.")
        if args.language is not None:
            raise InputError(f"{args.model} is an index, which has its language: leave out --language.")
        if not args.cache:
            raise InputError(f"{args.model} is an index, of which nothing is cached: leave out --no-cache.")
        return None
    check_name(args.model)
    if args.corpus is None:
        raise InputError(f"--corpus is needed, because {args.model} is not the folder of a saved index.")
    check_exists(args.corpus)
    _check_runs_model(args.model, args)
    if args.language is not None:
        check_language_form(args.language)
    return survey(args.corpus)


def _searcher(args: argparse.Namespace, documents: Survey | None) -> Searcher:
    """Open a saved index, or the cached index of the corpus, or build one."""
    from mteb_longembed.data.look import unread
    from mteb_longembed.retrieval.index_cache import is_cached, read_through_cache
    from mteb_longembed.retrieval.opening import open_index, search

    if documents is None:
        searcher = open_index(args.model, device=args.device, passages=args.passages)
        _check_runs_model(searcher.name, args)
        return searcher
    from mteb_longembed.retrieval.recommended import describe, recommended

    name = recommended(args.model)
    if name != args.model:
        text = describe(name)
        note(f"searching with {name}{': ' + text if text else ''} ({args.model}+none is the model as it is).")

    searcher = search(name, device=args.device, passages=args.passages, language=args.language)
    sentence = unread(documents.tokens, searcher.max_tokens)
    if sentence:
        note(sentence)
    folder = None
    if args.cache and is_cached(searcher, args.corpus):
        folder = read_through_cache(searcher, args.corpus)
    else:
        work = forecast(searcher, args.corpus, documents)
        note(work.sentence)
        with progress(work, show=True):
            if args.cache:
                folder = read_through_cache(searcher, args.corpus)
            else:
                searcher.read(args.corpus)
    if folder is not None:
        note(f"the index of {len(searcher):,} documents is cached in {folder}.")
    return searcher


def _check_runs_model(name: str, args: argparse.Namespace) -> None:
    """Refuse options of models for BM25 alone."""
    from mteb_longembed.names import is_lexical

    if not is_lexical(name):
        return
    for option, given in (("--device", args.device is not None), ("--no-passages", not args.passages)):
        if given:
            raise InputError(f"{name} runs no model: leave out {option}.")


def _print(hits_of: Mapping[str, list[Hit]], searcher: Searcher, *, full: bool) -> None:
    """Print the hits of each question with their best sentences, chosen by a model or by shared terms."""
    from mteb_longembed.retrieval.passages import excerpt, whole_sentences

    scores = None
    index = searcher.index
    if index is not None and index.shown is not None and searcher.shows_passages:
        scores = index.shown.text_scores
    for query, hits in hits_of.items():
        if len(hits_of) > 1:
            print(query)
        if not hits:
            print("No document has a term of the question.")
        for rank, hit in enumerate(hits, start=1):
            print(f"{rank}. {hit.score:.3f}  {printable(hit.id)}  characters {hit.start:,} to {hit.end:,}")
            start, end = whole_sentences(hit.document, hit.start, hit.end)
            shown = end - start if full else _SHOWN
            text = hit.document[start:end]
            passage = excerpt(text, query, shown, searcher.language, hit.matched_terms.values(), scores)
            print(textwrap.indent(textwrap.fill(printable(passage), 100), "   "))
            matched = [
                f"{query_term} -> {term}"
                for query_term, term in hit.matched_terms.items()
                if query_term != term
            ]
            if matched:
                print(f"   {printable(', '.join(matched))}")
