"""Encode your own documents once, and save the index: `mteb-longembed search FOLDER` opens it at once.

An interrupted call resumes from its finished embeddings, which are in the embedding cache. `--check` reads a saved
index whole, and says whether a file is damaged.
"""

import argparse
import json
import time
from pathlib import Path
from typing import get_args

from mteb_longembed.commands import CORPUS, DEVICE, JSON, check_device_form
from mteb_longembed.commands.forecast import forecast, note, progress
from mteb_longembed.errors import InputError
from mteb_longembed.values import Precision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    text = "any name for mteb run -m, such as mini-rope+windows; a model alone means its recommended preset"
    parser.add_argument("model", metavar="MODEL", nargs="?", help=text)
    parser.add_argument("--corpus", type=Path, metavar="FILE_OR_FOLDER", help=CORPUS)
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="a new or an empty folder for the index")
    text = "compare the checksums of all files of a saved index, and build none"
    parser.add_argument("--check", type=Path, metavar="FOLDER", help=text)
    text = "the language of the documents, such as deu or zho-Hans, for BM25 (default: English)"
    parser.add_argument("--language", metavar="CODE", help=text)
    text = (
        "how vectors are stored: fp32, int8 (a quarter of the bytes), or 4bit (an eighth); default: int8 for "
    )
    text += "+late and +hybrid, and fp32 for others"
    parser.add_argument("--precision", choices=get_args(Precision), help=text)
    parser.add_argument("--device", help=DEVICE)
    parser.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Build the index, and print what it holds.

    Raises:
        InputError: if the folder holds other files or an index, or the model has no such name.
        IndexFolderError: if `--check` finds a damaged file.
        DataError: if the corpus is empty or breaks a rule.
    """
    from mteb_longembed.data.look import check_exists, survey, unread
    from mteb_longembed.encoders.method import check_name
    from mteb_longembed.retrieval.storage import Reader, check_new
    from mteb_longembed.values import check_language_form

    if args.check is not None:
        reader = Reader(args.check)
        n_bytes = reader.check()
        print(
            f"{args.check}: {reader.manifest.documents:,} documents, {n_bytes / 2**20:,.1f} MB, no file is damaged."
        )
        return 0
    for option in ("model", "corpus", "to"):
        if vars(args)[option] is None:
            shown = "MODEL" if option == "model" else f"--{option}"
            raise InputError(
                f"{shown} is needed to build an index: index MODEL --corpus DOCUMENTS --to FOLDER."
            )
    check_new(args.to)
    check_name(args.model)
    check_device_form(args.device)
    if args.language is not None:
        check_language_form(args.language)
    check_exists(args.corpus)
    documents = survey(args.corpus)
    if args.device is not None:
        from mteb_longembed.encoders.devices import check_device

        check_device(args.device)
    from mteb_longembed.retrieval.opening import search
    from mteb_longembed.retrieval.recommended import recommended

    start = time.monotonic()
    searcher = search(
        recommended(args.model), device=args.device, language=args.language, precision=args.precision
    )
    sentence = unread(documents.tokens, searcher.max_tokens)
    if sentence:
        note(sentence)
    work = forecast(searcher, args.corpus, documents)
    note(work.sentence)
    work.check_room(args.to)
    with progress(work, show=True):
        searcher.read(args.corpus)
    searcher.save(args.to)
    n_bytes = sum(path.stat().st_size for path in args.to.rglob("*") if path.is_file())
    seconds = time.monotonic() - start
    n_vectors = searcher.n_vectors
    if args.json:
        facts = {
            "folder": str(args.to),
            "name": searcher.name,
            "documents": len(searcher),
            "vectors": n_vectors,
        }
        print(json.dumps({**facts, "bytes": n_bytes, "seconds": round(seconds, 3)}, indent=2))
        return 0
    summary = [f"{len(searcher):,} documents"]
    if n_vectors:
        summary.append(f"{n_vectors:,} vectors")
    summary += [f"{n_bytes / 2**20:,.1f} MB", f"{seconds:,.0f} s"]
    print(f"Saved {args.to}: {', '.join(summary)}.")
    print(f'Search it: mteb-longembed search {args.to} "YOUR QUESTION"')
    return 0
