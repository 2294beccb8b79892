"""`mteb-longembed diagnose`: does a task need long context? It shows a table, and can write a figure and data."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from mteb_longembed.commands import JSON, Options

if TYPE_CHECKING:
    from mteb_longembed.reports.tables.table import Table
    from mteb_longembed.tasks.diagnose import Diagnosis

_SHARE = 0.95


def _lengths(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected whole numbers with commas between them, got {text!r}"
        ) from None


DESCRIPTION = (
    "Does a task need long context? The table shows its score if models read only the beginning of each document, and "
    "how many documents are longer. If the score on 512 tokens is as good as on whole documents, the task says nothing "
    "about long context."
)
EPILOG = "example: mteb-longembed diagnose -t LongEmbedQMSum -m bm25 -m e5-base --lengths 128,512,2048,8192"
OPTIONS: Options = {"": [
    ("-t --task", {"required": True},
     "any text retrieval task of mteb (mteb available-tasks) or of this package, or a folder in BEIR's format: "
     "corpus.jsonl, queries.jsonl, qrels/test.tsv"),
    ("-m --model", {"action": "append", "dest": "models", "metavar": "MODEL"},
     "any name that `mteb run -m` takes; repeat -m to compare models (default: bm25, which reads any length and needs "
     "pip install 'mteb[bm25s]')"),
    ("--lengths", {"type": _lengths, "metavar": "N,N,..."},
     "how many tokens of each document to read (default: 128,256,512,1024,2048,4096,8192); the score on whole "
     "documents is always shown"),
    ("--eval-splits", {"nargs": "+", "metavar": "SPLIT"},
     "splits of the task, such as test_4096 (default: all splits that are scored)"),
    JSON,
    ("--figures", {"type": Path, "metavar": "DIR"},
     "write the curve as PNG and SVG into this folder; needs pip install 'mteb-longembed[figures]'"),
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Run the diagnosis and show it; return the exit status."""
    from rich.console import Console

    from mteb_longembed.reports.writers import show
    from mteb_longembed.tasks.diagnose import BM25, LENGTHS, diagnose

    found = diagnose(args.task, args.models or [BM25], args.lengths or LENGTHS, args.eval_splits)
    if args.json:
        print(json.dumps(asdict(found), indent=1))
    else:
        show([to_table(found)], Console())
    if args.figures:
        from mteb_longembed.reports.figures.curves import draw_diagnosis

        for path in draw_diagnosis(found).save(args.figures):
            print(path, file=sys.stderr if args.json else sys.stdout)
    return 0


def to_table(found: Diagnosis) -> Table:
    """The scores by tokens read, the share of longer documents, and the conclusion."""
    from mteb_longembed.reports.tables.table import Table, interval_cell, number_cell, text_cell

    lengths = sorted({length for curve in found.curves.values() for length in curve})
    rows = [
        (
            text_cell(f"{length:,}"),
            *(interval_cell(curve.get(length)) for curve in found.curves.values()),
            number_cell(found.longer_than(length), 0),
        )
        for length in lengths
    ]
    everything = "as many as it reads" if found.stops_at else "all"
    rows.append((text_cell(everything), *map(interval_cell, found.whole.values()), number_cell(0.0, 0)))
    lens = found.document_lens
    spread = f"median {median(lens):,.0f}, longest {max(lens):,} tokens"
    notes = [
        "[low,high]: 95 % interval over queries.",
        f"{len(lens):,} documents: {spread} ({next(iter(found.counted_by.values()))}).",
    ]
    return Table(
        key="diagnosis",
        title=f"{found.task}: {found.score} (%) by tokens read of each document",
        header=("tokens read", *found.curves, "longer documents (%)"),
        rows=tuple(rows),
        notes=(*notes, *found.counted, *(_verdict(found, model) for model in found.curves)),
    )


def _verdict(found: Diagnosis, model: str) -> str:
    enough = found.enough(model, _SHARE)
    score = found.whole[model].mean
    most = found.stops_at.get(model)
    what = "whole documents" if most is None else f"the {most:,} tokens that it reads at most"
    said = "." if most is None else f"; it says nothing about what comes after {most:,} tokens."
    if score == 0:
        return f"{model} finds nothing even in {what}, so it says nothing about the task."
    if enough is None:
        tried = max(found.curves[model], default=0)
        return f"{model} needs more than {tried:,} tokens for {_SHARE:.0%} of its score on {what}{said}"
    return f"{model} needs {enough:,} tokens for {_SHARE:.0%} of its score on {what} ({score:.1f}){said}"
