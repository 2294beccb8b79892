"""`mteb-longembed compare`: which method for long documents is best for a model and data, at what cost."""

from __future__ import annotations

import argparse
import gc
import re
import shlex
import sys
from pathlib import Path
from signal import SIGTERM, default_int_handler, signal
from typing import TYPE_CHECKING

from mteb_longembed.commands import JSON, Options, helps
from mteb_longembed.comparing.options import Options as Keywords
from mteb_longembed.data.sources import Data
from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb_longembed.comparing.compare import Comparison

#: The exit status after an interrupt, also if there is an answer.
INTERRUPTED_STATUS = 130


def _keys(text: str) -> list[str]:
    """The keys of a list with commas, such as `gp, ntk`."""
    return [key.strip() for key in text.split(",") if key.strip()]


def _run(text: str) -> tuple[str, str]:
    """The name of a run, and its file."""
    name, equals, file = text.partition("=")
    if not (equals and file and re.fullmatch(r"[\w.-]+", name)):
        raise argparse.ArgumentTypeError(
            f"expected NAME=FILE with letters, digits and _.- in the name, got {text!r}"
        )
    return name, file


DESCRIPTION = (
    "Run the ways of embedding long documents that fit a model, on the same data. The answer says which one is best, "
    "which one is nearly as good but cheaper, and what to type next. If the command was interrupted, the same command "
    "continues from there."
)
EPILOG = (
    "examples: mteb-longembed compare mini-rope -t LongEmbedPasskey --eval-splits test_512 test_2048;  "
    "mteb-longembed compare ./my-model --corpus docs.jsonl --queries questions.jsonl --qrels qrels.tsv"
)
_DATA = helps(Data)
_KEYWORDS = helps(Keywords)
OPTIONS: Options = {
    "": [("models", {"nargs": "*", "metavar": "MODEL"}, "bases: an alias, a hub id, a folder")],
    "data": [
        ("-t --tasks", {"nargs": "+", "metavar": "TASK"}, _DATA["tasks"]),
        ("-b --benchmarks", {"nargs": "+", "metavar": "NAME"}, _DATA["benchmarks"]),
        ("--eval-splits", {"nargs": "+", "metavar": "SPLIT"}, _DATA["eval_splits"]),
        ("--data", {"type": Path, "metavar": "FOLDER"}, _DATA["folder"]),
        ("--corpus", {"type": Path, "metavar": "FILE_OR_FOLDER"}, _DATA["corpus"]),
        ("--queries", {"type": Path, "metavar": "FILE"}, _DATA["queries"]),
        ("--qrels", {"type": Path, "metavar": "FILE"}, _DATA["qrels"]),
        ("--language", {"metavar": "CODE"}, _DATA["language"]),
        ("--metric", {"nargs": "+", "metavar": "METRIC"}, _KEYWORDS["metric"]),
        ("--ignore-identical-ids", {"action": "store_true"}, _KEYWORDS["ignore_identical_ids"]),
        ("--sample", {"type": int, "metavar": "N"}, _KEYWORDS["sample"]),
    ],
    "candidates": [
        ("--strategies", {"type": _keys, "metavar": "KEY,KEY,..."}, _KEYWORDS["strategies"]),
        ("--target", {"metavar": "TOKENS"}, _KEYWORDS["target"]),
        ("--run", {"dest": "runs", "type": _run, "action": "append", "metavar": "NAME=FILE"},
         "a TREC run file of another program, such as --run elastic=elastic.trec; several times for several"),
        ("--no-bm25", {"dest": "bm25", "action": "store_false"}, "leave out BM25 and the fusion with BM25"),
    ],
    "run": [
        ("--device", {}, _KEYWORDS["device"]),
        ("--dtype", {"choices": ("fp32", "bf16", "fp16")}, _KEYWORDS["dtype"]),
    ],
    "output": [
        ("--output-folder", {"dest": "folder", "type": Path, "metavar": "DIR"}, _KEYWORDS["folder"]),
        ("--figure", {"type": Path, "metavar": "FILE"},
         "draw the scores with their intervals into FILE: .svg, .png or .pdf"),
        ("--gate", {"metavar": "NAME"},
         "end with status 1 if this run is surely below the first --run: a regression test"),
        JSON,
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Compare, print and write. All options but those for the output are passed on to `mteb_longembed.compare`.

    Raises:
        LongEmbedError: as `mteb_longembed.compare` does.
    """
    from mteb_longembed.hub import silence

    own = ("command", "figure", "json", "gate", "runs")
    given = {key: value for key, value in vars(args).items() if key not in own and value is not None}
    runs = args.runs or []
    names = [name for name, _ in runs]
    if len(set(names)) < len(names):
        raise InputError(f"each --run needs a name of its own, got {', '.join(names)}.")
    if not args.models and not runs:
        raise InputError("compare needs a model or a --run NAME=FILE, got neither.")
    if args.gate is not None and args.gate not in names[1:]:
        raise InputError(f"--gate needs the name of a --run behind the first one, got {args.gate}.")
    # without a working folder, `silence` raises a clear error; the imports below would end the process
    with silence():
        from mteb_longembed import figures
        from mteb_longembed.comparing.compare import compare
        from mteb_longembed.comparing.figure import draw
        from mteb_longembed.comparing.gate import gate
        from mteb_longembed.comparing.page import PAGE, as_json, write_all

        if args.figure:
            figures.prepare(args.figure)  # a wrong name is told now, and not at the end of a long run
        gc.freeze()  # the search for garbage after each candidate need not look through the imports
        before = signal(SIGTERM, default_int_handler)
        try:
            comparison = compare(**given, runs=dict(runs), show=not args.json)
        finally:
            signal(SIGTERM, before)
    if args.json:
        print(as_json(comparison), end="")
    else:
        _print(comparison)
    sys.stdout.flush()  # a disk may refuse what follows, and the answer is there
    output = given.get("folder", Keywords.folder)
    folder = write_all(comparison, Path(output), shlex.join(["mteb-longembed", *sys.argv[1:]]))
    if args.figure:
        figures.write(draw(comparison), args.figure)
    if not args.json:
        print(f"Written: {folder / PAGE}, with all tables, JSON and the scores of each query beside it.")
    if not comparison.is_complete:
        return INTERRUPTED_STATUS
    if args.gate is None:
        return 0
    is_open, sentence = gate(comparison, f"run/{names[0]}", f"run/{args.gate}")
    print(sentence, file=sys.stderr)
    return 0 if is_open else 1


def _print(comparison: Comparison) -> None:
    """The answer in three lines, what the numbers cannot see, and the first table; the page has the others."""
    from mteb_longembed.comparing.page import ranking_table
    from mteb_longembed.files import printable

    cautions = [f"Note: {sentence}" for sentence in comparison.texts("caution")]
    for line in [*comparison.advice.answer, *cautions]:
        print(printable(line))
    print(f"\n{ranking_table(comparison).as_text()}\n")
    for line in [comparison.signature, *comparison.texts("data")]:
        print(printable(line))
