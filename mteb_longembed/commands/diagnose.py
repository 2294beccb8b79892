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
from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb_longembed.reports.figures.drawing import Drawing
    from mteb_longembed.reports.tables.table import Table
    from mteb_longembed.tasks.diagnose import Diagnosis

_SHARE = 0.95
# The colours of models, apart also for readers who see few colours; grey is for the task's documents.
_COLOURS, _GREY = (1, 5, 4, 6, 3, 2, 0), "#999999"
# Half the width of a bar, as a factor. Neighbouring bars differ by a factor of two.
_HALF_BAR = 2**0.35


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

    diagnosis = diagnose(args.task, args.models or [BM25], args.lengths or LENGTHS, args.eval_splits)
    if args.json:
        print(json.dumps(asdict(diagnosis), indent=1))
    else:
        show([to_table(diagnosis)], Console())
    if args.figures:
        for path in draw(diagnosis).save(args.figures):
            print(path, file=sys.stderr if args.json else sys.stdout)
    return 0


def to_table(diagnosis: Diagnosis) -> Table:
    """The scores by tokens read, the share of longer documents, and the conclusion."""
    from mteb_longembed.reports.tables.table import Table, interval_cell, number_cell, text_cell

    rows = [
        (
            text_cell(f"{length:,}"),
            *(interval_cell(curve.get(length)) for curve in diagnosis.curves.values()),
            number_cell(diagnosis.longer_than(length), 0),
        )
        for length in _tried(diagnosis)
    ]
    everything = "as many as it reads" if diagnosis.stops_at else "all"
    rows.append((text_cell(everything), *map(interval_cell, diagnosis.uncut.values()), number_cell(0.0, 0)))
    notes = [
        "[low,high]: 95 % interval over queries.",
        f"{len(diagnosis.document_lens):,} documents: {_spread(diagnosis)} "
        f"({next(iter(diagnosis.counted_by.values()))}).",
    ]
    return Table(
        key="diagnosis",
        title=_title(diagnosis),
        header=("tokens read", *diagnosis.curves, "longer documents (%)"),
        rows=tuple(rows),
        notes=(*notes, *diagnosis.counted, *(_verdict(diagnosis, model) for model in diagnosis.curves)),
    )


def draw(diagnosis: Diagnosis) -> Drawing:
    """Draw the scores by tokens read above, and below them how many documents are longer."""
    from mteb_longembed.reports.figures.drawing import draw_lines, ends, length_axis, new_drawing, style
    from mteb_longembed.reports.tables.table import rounded

    lengths, n_documents = _tried(diagnosis), len(diagnosis.document_lens)
    if not lengths or not n_documents or not all(diagnosis.curves.values()):
        raise InputError(
            "a figure needs at least one score of each model and one document, the diagnosis of "
            f"{diagnosis.task!r} has {len(diagnosis.curves)} models and {n_documents} documents."
        )
    title = _title(diagnosis)
    drawing, (above, below) = new_drawing(f"diagnosis-{diagnosis.task}", title, 6.4, 5.2, n_rows=2)
    series = []
    for number, (model, curve) in enumerate(diagnosis.curves.items()):
        look, uncut = style(_COLOURS[number % len(_COLOURS)]), diagnosis.uncut[model]
        tips = {n: f"{model}, {n:,} tokens read: {rounded(v.mean)}{ends(v)}" for n, v in curve.items()}
        series.append((model, curve, tips, look))
        line = above.axhline(uncut.mean, color=look.colour, ls=":", lw=1)
        drawing.tip(line, f"{model}, not cut by us: {rounded(uncut.mean)}{ends(uncut)}")
        if uncut.is_known:
            above.axhspan(uncut.low, uncut.high, color=look.colour, alpha=0.08, lw=0)
    draw_lines(drawing, above, series)
    above.set(ylim=(0, 102), ylabel=f"{diagnosis.score} (%)")
    above.set_xlabel("Tokens read of each document (dotted: as many as it reads; bars and bands: 95 %)")
    for length in lengths:
        share = diagnosis.longer_than(length)
        # The axis is logarithmic, as for the curves above. These widths look equal on it.
        width = length * (_HALF_BAR - 1 / _HALF_BAR)
        (bar,) = below.bar(length / _HALF_BAR, share, width, align="edge", color=_GREY)
        drawing.tip(bar, f"{rounded(share)} % of {n_documents:,} documents are longer than {length:,} tokens")
        text, point = str(rounded(share, 0)), (length, share)
        below.annotate(text, point, (0, 2), textcoords="offset points", ha="center", fontsize=8)
    length_axis(below, lengths)
    for axes in (above, below):
        axes.set_xlim(lengths[0] / 1.5, lengths[-1] * 1.5)
    below.set(ylim=(0, 112), ylabel="Longer documents (%)")
    below.set_xlabel(f"Tokens ({n_documents:,} documents, {_spread(diagnosis)})")
    drawing.figure.suptitle(title, fontsize=10)
    drawing.legend(above)
    return drawing


def _tried(diagnosis: Diagnosis) -> list[int]:
    return sorted({length for curve in diagnosis.curves.values() for length in curve})


def _title(diagnosis: Diagnosis) -> str:
    return f"{diagnosis.task}: {diagnosis.score} (%) by tokens read of each document"


def _spread(diagnosis: Diagnosis) -> str:
    lens = diagnosis.document_lens
    return f"median {median(lens):,.0f}, longest {max(lens):,} tokens"


def _verdict(diagnosis: Diagnosis, model: str) -> str:
    enough = diagnosis.enough(model, _SHARE)
    score = diagnosis.uncut[model].mean
    most = diagnosis.stops_at.get(model)
    what = "whole documents" if most is None else f"the {most:,} tokens that it reads at most"
    end = "." if most is None else f"; it says nothing about what comes after {most:,} tokens."
    if score == 0:
        return f"{model} finds nothing even in {what}, so it says nothing about the task."
    if enough is None:
        tried = max(diagnosis.curves[model], default=0)
        return f"{model} needs more than {tried:,} tokens for {_SHARE:.0%} of its score on {what}{end}"
    return f"{model} needs {enough:,} tokens for {_SHARE:.0%} of its score on {what} ({score:.1f}){end}"
