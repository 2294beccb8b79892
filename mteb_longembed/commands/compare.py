"""Compare methods of embedding long documents that fit a model, on the same data.

The answer says which one is best, which one is nearly as good but cheaper, and what to type next. If the command was
interrupted, the same command continues from there. Example:
mteb-longembed compare ./my-model --corpus docs.jsonl --queries questions.jsonl --qrels qrels.tsv
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from signal import SIGTERM, default_int_handler, signal
from typing import TYPE_CHECKING

from mteb_longembed.commands import JSON, check_device_form
from mteb_longembed.comparing.options import Options
from mteb_longembed.data.sources import Data
from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb_longembed.comparing.comparison import Comparison

#: The exit status after an interrupt, also if there is an answer.
INTERRUPTED_STATUS = 130


def _keys(text: str) -> list[str]:
    """Split comma-separated keys, such as `gp, ntk`."""
    return [key.strip() for key in text.split(",") if key.strip()]


def _run(text: str) -> tuple[str, str]:
    """Split the name of a run from its file."""
    name, equals, file = text.partition("=")
    if not (equals and file and re.fullmatch(r"[\w.-]+", name)):
        raise argparse.ArgumentTypeError(
            f"expected NAME=FILE with letters, digits and _.- in the name, got {text!r}"
        )
    return name, file


def _helps(options: type) -> dict[str, str]:
    """Return the description of each field in the docstring of a class."""
    described = (inspect.getdoc(options) or "").partition("Args:\n")[2].partition("\n\n")[0]
    lines = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", described, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".").replace("%", "%%") for name, text in lines}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command: the fields of `Data` and `Options`, with the same help, and a few more."""
    helps = _helps(Data)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="bases: an alias, a hub id, a folder")
    data = parser.add_argument_group("data")
    data.add_argument("-t", "--tasks", nargs="+", metavar="TASK", help=helps["tasks"])
    data.add_argument("-b", "--benchmarks", nargs="+", metavar="NAME", help=helps["benchmarks"])
    data.add_argument("--eval-splits", nargs="+", metavar="SPLIT", help=helps["eval_splits"])
    data.add_argument("--data", type=Path, metavar="FOLDER", help=helps["folder"])
    data.add_argument("--corpus", type=Path, metavar="FILE_OR_FOLDER", help=helps["corpus"])
    data.add_argument("--queries", type=Path, metavar="FILE", help=helps["queries"])
    data.add_argument("--qrels", type=Path, metavar="FILE", help=helps["qrels"])
    data.add_argument("--language", metavar="CODE", help=helps["language"])
    data.add_argument("--by", metavar="COLUMN", help=helps["by"])
    helps = _helps(Options)
    data.add_argument("--metric", nargs="+", help=helps["metric"])
    data.add_argument("--ignore-identical-ids", action="store_true", help=helps["ignore_identical_ids"])
    data.add_argument("--judge", action="store_true", help=helps["judge"])
    data.add_argument("--sample", type=int, metavar="N", help=helps["sample"])
    candidates = parser.add_argument_group("candidates")
    candidates.add_argument("--strategies", type=_keys, metavar="KEY,KEY,...", help=helps["strategies"])
    candidates.add_argument("--target", metavar="TOKENS", help=helps["target"])
    run = "a TREC run file of another program, such as --run elastic=elastic.trec; several times for several"
    candidates.add_argument(
        "--run", dest="runs", type=_run, action="append", default=[], metavar="NAME=FILE", help=run
    )
    quick = argparse.BooleanOptionalAction
    candidates.add_argument("--quick", action=quick, default=None, help=helps["quick"])
    without = "leave out BM25 and the fusion with BM25"
    candidates.add_argument("--no-bm25", dest="bm25", action="store_false", help=without)
    machine = parser.add_argument_group("run")
    machine.add_argument("--device", help=helps["device"])
    machine.add_argument("--dtype", choices=("fp32", "bf16", "fp16"), help=helps["dtype"])
    output = parser.add_argument_group("output")
    output.add_argument("--output-folder", type=Path, metavar="DIR", help=helps["output_folder"])
    figure = "draw the scores with their intervals into FILE: .svg, .png or .pdf"
    output.add_argument("--figure", type=Path, metavar="FILE", help=figure)
    gate = "end with status 1 if this run is significantly below the first --run: a regression test"
    output.add_argument("--gate", metavar="NAME", help=gate)
    output.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Compare, print and write. All options except output options are passed on to `mteb_longembed.compare`.

    Raises:
        LongEmbedError: as `mteb_longembed.compare` does.
    """
    own = ("command", "figure", "json", "gate", "runs", "models")
    given = {key: value for key, value in vars(args).items() if key not in own and value is not None}
    if "data" in given:
        given["folder"] = given.pop("data")
    of_data = {one.name for one in fields(Data)}
    options = {key: value for key, value in given.items() if key not in of_data}
    names = [name for name, _ in args.runs]
    if len(set(names)) < len(names):
        raise InputError(f"each --run needs a name of its own, got {', '.join(names)}.")
    if not args.models and not names:
        raise InputError("compare needs a model or a --run NAME=FILE, got neither.")
    if args.gate is not None and args.gate not in names[1:]:
        raise InputError(f"--gate needs the name of a --run after the first one, got {args.gate}.")
    data = Data(**{key: value for key, value in given.items() if key in of_data})
    _look(args, data)
    from mteb_longembed import figures
    from mteb_longembed.hub import silence

    # without a working folder, `silence` raises a clear error; the imports below would end the process
    with silence():
        from mteb_longembed.comparing.compare import compare
        from mteb_longembed.comparing.figure import draw_figure
        from mteb_longembed.comparing.page import PAGE, as_json, write_all
        from mteb_longembed.comparing.verdict import gate

        gc.freeze()  # garbage collection after each candidate skips the imports
        before = signal(SIGTERM, default_int_handler)
        try:
            comparison = compare(args.models, data, **options, runs=dict(args.runs), show=not args.json)
        finally:
            signal(SIGTERM, before)
    output = Path(options.get("output_folder", Options.output_folder))
    if not comparison.is_judged:
        return _ask(comparison, output, as_json=args.json)
    if args.json:
        print(as_json(comparison), end="")
    else:
        _print(comparison)
    sys.stdout.flush()  # print the answer even if the writes below fail
    folder = write_all(comparison, output, shlex.join(["mteb-longembed", *sys.argv[1:]]))
    if args.figure:
        figures.write(draw_figure(comparison), args.figure)
    if not args.json:
        print(f"Written: {folder / PAGE}, with all tables, JSON and the scores of each query beside it.")
    if args.judge:
        _ask(comparison, output, as_json=args.json)
    if not comparison.is_complete:
        return INTERRUPTED_STATUS
    if args.gate is None:
        return 0
    is_open, sentence = gate(comparison.scores, comparison.setting, f"run/{names[0]}", f"run/{args.gate}")
    print(sentence, file=sys.stderr)
    return 0 if is_open else 1


def _ask(comparison: Comparison, output: Path, *, as_json: bool) -> int:
    """Write the page that asks for judgements, and print what to do with it."""
    from mteb_longembed.comparing.judging import PAGE
    from mteb_longembed.comparing.page import folder_of
    from mteb_longembed.files import printable

    words = _without(sys.argv[1:], "--qrels", "--judge")
    following, file = "--qrels", "qrels.tsv"
    if not comparison.setting.n_queries:
        following, file = "--queries", "typed.jsonl"
    command = shlex.join(["mteb-longembed", *words, following, file])
    path = comparison.judge(folder_of(comparison, output) / PAGE, command)
    if as_json:
        if not comparison.is_judged:
            print(json.dumps({"page": str(path), "typed": command, "n_documents": comparison.n_documents}))
        return 0
    if not comparison.is_judged:
        print(printable(comparison.advice.use))
    print(printable(f"Open {path} in a browser, save {file} here, and type: {command}"))
    return 0 if comparison.is_complete else INTERRUPTED_STATUS


def _without(words: Sequence[str], option: str, flag: str) -> list[str]:
    """Return command-line arguments without an option and its value, and without a flag."""
    kept: list[str] = []
    left = iter(words)
    for word in left:
        if word == option:
            next(left, None)
        elif word != flag and not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def _look(args: argparse.Namespace, data: Data) -> None:
    """Check all arguments and files before torch and mteb are imported. Names of mteb's tasks are left to mteb."""
    from mteb_longembed import figures
    from mteb_longembed.data.look import check_exists, look_at
    from mteb_longembed.encoders.method import Method, check_name
    from mteb_longembed.evaluation.metrics import read_metric
    from mteb_longembed.files import make_folder
    from mteb_longembed.values import read_tokens

    for name in args.models:
        check_name(name)
    for key in args.strategies or ():
        if key != "all":
            Method("", key)
    if args.target is not None:
        read_tokens("the target", args.target)
    for metric in args.metric or ():
        read_metric(metric)
    check_device_form(args.device)
    for _, file in args.runs:
        check_exists(file)
    if args.figure:
        figures.prepare(args.figure)
    make_folder("--output-folder", args.output_folder or Path(Options.output_folder))
    look_at(data)


def _print(comparison: Comparison) -> None:
    """Print the answer in three lines, the cautions, and the first table; the page has the others."""
    from mteb_longembed.comparing.page import kind_table, ranking_table
    from mteb_longembed.files import printable

    cautions = [f"Note: {sentence}" for sentence in comparison.texts("caution")]
    for line in [*comparison.advice.answer, *cautions]:
        print(printable(line))
    print(f"\n{ranking_table(comparison).as_text()}\n")
    if not comparison.by_kind.empty:
        print(f"{kind_table(comparison).as_text()}\n")
    for line in [comparison.signature, *comparison.texts("data")]:
        print(printable(line))
