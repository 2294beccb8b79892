"""`mteb-longembed compare`: which method for long documents is best for a model and data, at what cost."""

from __future__ import annotations

import argparse
import gc
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from signal import SIGTERM, signal
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from mteb_longembed.commands import DEVICE, DTYPE, JSON, Options
from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb_longembed.comparing.compare import Comparison

RESULTS = Path("results")
#: The exit status after an interrupt, also if there is an answer.
INTERRUPTED_STATUS = 130


def _keys(text: str) -> list[str]:
    """The keys of a list with commas, such as `gp, ntk`."""
    return [key.strip() for key in text.split(",") if key.strip()]


def _sizes(text: str) -> list[int]:
    """Whole numbers with commas between them, such as `64,128,254`.

    Raises:
        argparse.ArgumentTypeError: if one is no number, or below 1.
    """
    if not re.fullmatch(r"\s*[1-9][0-9]*\s*(,\s*[1-9][0-9]*\s*)*", text):
        raise argparse.ArgumentTypeError(f"expected numbers of tokens such as 64,128,254, got {text!r}")
    return [int(size) for size in text.split(",")]


def _run(text: str) -> tuple[str, str]:
    """The name of a run, and its file or what else is said of it.

    Raises:
        argparse.ArgumentTypeError: if it is not NAME=FILE.
    """
    name, equals, file = text.partition("=")
    if not (equals and file and re.fullmatch(r"[\w.-]+", name)):
        raise argparse.ArgumentTypeError(
            f"expected NAME=FILE with letters, digits and _.- in the name, got {text!r}"
        )
    return name, file


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM does what Ctrl-C does. Only the main thread may say so."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGTERM, interrupt)
    try:
        yield
    finally:
        signal(SIGTERM, before)


DESCRIPTION = (
    "Run the ways of embedding long documents that fit a model, on the same data. The answer says which one is best, "
    "which one is nearly as good but cheaper, and what to type next. If the command was interrupted, the same command "
    "continues from there."
)
EPILOG = (
    "examples: mteb-longembed compare mini-rope -t LongEmbedPasskey --eval-splits test_512 test_2048;  "
    "mteb-longembed compare ./my-model --corpus docs.jsonl --queries questions.jsonl --qrels qrels.tsv"
)
_ROWS = "with an id and text: JSON Lines, CSV, TSV or Parquet"
OPTIONS: Options = {
    "": [("models", {"nargs": "*", "metavar": "MODEL"}, "bases: an alias, a hub id, a folder")],
    "data": [
        ("-t --tasks", {"nargs": "+", "default": [], "metavar": "TASK"}, "retrieval tasks of mteb"),
        ("-b --benchmarks", {"nargs": "+", "default": [], "metavar": "NAME"},
         "benchmarks of mteb, such as LongEmbed+"),
        ("--eval-splits", {"nargs": "+", "metavar": "SPLIT"}, "only these splits of the tasks"),
        ("--data", {"type": Path, "metavar": "FOLDER"}, "a folder in BEIR's layout"),
        ("--corpus", {"type": Path, "metavar": "FILE_OR_FOLDER"},
         f"documents {_ROWS}, or a folder of such Parquet files, or of .txt and .md files"),
        ("--queries", {"type": Path, "metavar": "FILE"}, f"queries {_ROWS}"),
        ("--qrels", {"type": Path, "metavar": "FILE"},
         "query id, document id and score: the same formats, or TREC's"),
        ("--language", {"metavar": "CODE"},
         "the language of your own files, such as deu or zho-Hans; BM25 cuts words by it (default: eng-Latn)"),
        ("--metric", {"nargs": "+", "default": [], "metavar": "METRIC"},
         "such as nDCG@10 R@100 RR@10; the first one ranks (default: the task's main score)"),
        ("--ignore-identical-ids", {"action": "store_true"},
         "a document with the id of the query does not count (BEIR's rule)"),
        ("--sample", {"type": int, "metavar": "N"},
         "keep N documents in each corpus: the judged ones, the hardest ones for BM25, and random ones"),
    ],
    "candidates": [
        ("--strategies", {"type": _keys, "metavar": "KEY,KEY,..."},
         "only these, or all (default: windows over whole documents, and one position strategy)"),
        ("--target", {"metavar": "TOKENS"},
         "the target length (default: windows read 95 %% of the text, others 8 times the trained length)"),
        ("--sizes", {"type": _sizes, "default": [], "metavar": "N,N,..."},
         "also try vectors of so many tokens each, such as 64,128,254"),
        ("--run", {"dest": "runs", "type": _run, "action": "append", "default": [], "metavar": "NAME=FILE"},
         "a TREC run file of another program, such as --run elastic=elastic.trec; several times for several"),
        ("--no-bm25", {"dest": "bm25", "action": "store_false"}, "leave out BM25 and the fusion with BM25"),
    ],
    "run": [
        DEVICE,
        DTYPE,
    ],
    "output": [
        ("--output-folder", {"dest": "folder", "type": Path, "default": RESULTS, "metavar": "DIR"},
         "(default: results)"),
        ("--figure", {"type": Path, "metavar": "FILE"},
         "draw the scores with their intervals into FILE: .svg, .png or .pdf"),
        ("--gate", {"metavar": "NAME"},
         "end with status 1 if this run is surely below the first --run: a regression test"),
        ("--explain", {"action": "store_true"}, "print all tables, what their columns mean, and what else follows"),
        JSON,
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Compare, print and write. All options but those for the output are passed on to `mteb_longembed.compare`.

    Raises:
        LongEmbedError: as `mteb_longembed.compare` does.
    """
    from mteb_longembed.hub import silence

    own = ("command", "figure", "json", "explain", "gate")
    given = {key: value for key, value in vars(args).items() if key not in own}
    given["runs"] = dict(args.runs)
    if len(given["runs"]) < len(args.runs):
        ((again, _),) = Counter(name for name, _ in args.runs).most_common(1)
        raise InputError(f"each --run needs a name of its own, got {again} twice.")
    if not args.models and not args.runs:
        raise InputError("compare needs a model or a --run NAME=FILE, got neither.")
    if args.gate is not None and args.gate not in [name for name, _ in args.runs[1:]]:
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
        said: list[str] = []
        with _terminated_as_interrupted():
            comparison = compare(**given, show=not args.json, on_message=partial(_say, said))
    if args.json:
        print(as_json(comparison), end="")
    else:
        _print(comparison, said, explain=args.explain)
    sys.stdout.flush()  # a disk may refuse what follows, and the answer is there
    folder = write_all(comparison, args.folder, shlex.join(["mteb-longembed", *sys.argv[1:]]))
    if args.figure:
        figures.write(draw(comparison), args.figure)
    if not args.json:
        more = "" if args.explain else " --explain says what the columns mean."
        print(f"Written: {folder / PAGE}, with JSON and the scores of each query beside it.{more}")
    if not comparison.is_complete:
        return INTERRUPTED_STATUS
    if args.gate is None:
        return 0
    is_open, sentence = gate(comparison, f"run/{args.runs[0][0]}", f"run/{args.gate}")
    print(sentence, file=sys.stderr)
    return 0 if is_open else 1


def _say(said: list[str], sentence: str) -> None:
    """Print a sentence apart from the results, and note it if a terminal shows it above them."""
    from mteb_longembed.comparing.compare import say_on_stderr

    say_on_stderr(sentence)
    if sys.stdout.isatty() and sys.stderr.isatty():
        said.append(sentence)


def _print(comparison: Comparison, said: Sequence[str], *, explain: bool) -> None:
    """The answer in three lines, then the table; all other tables and notes only with `explain`.

    What was `said` on this terminal is not said again.
    """
    from mteb_longembed.comparing.page import as_text, ranking_table, tables
    from mteb_longembed.files import printable

    comparison = replace(comparison, notes=[note for note in comparison.notes if note.text not in said])
    for line in comparison.advice.answer:
        print(printable(line))
    if comparison.advice.way_out:
        print(f"To take it with you: {printable(comparison.advice.way_out)}")
    for sentence in comparison.texts("caution"):
        print(f"Note: {printable(sentence)}")
    shown = [ranking_table(comparison)]
    if explain:
        shown = tables(comparison)
    for table in shown:
        print(f"\n{as_text(table, get_terminal_size().columns, notes=explain)}")
    further = comparison.texts("finding", "untried")  # the table's notes have the signature and the data
    if not explain:
        further = [comparison.signature, *comparison.texts("data")]
        if comparison.trust is not None:
            further.append(comparison.trust.sentence)
    print()
    for sentence in further:
        print(printable(sentence))
