"""The options of a comparison: the keywords of `compare`, and the options of the command with the same help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mteb_longembed.encoders.method import DType


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which candidates run, how they are scored, and where they run.

    Args:
        metric: metrics such as nDCG@10 R@100 RR@10; the first one ranks (default: the task's main score).
        ignore_identical_ids: ignore a document that has the query's id (BEIR's rule).
        sample: keep N documents in each corpus: the judged ones, the hardest ones for BM25, and random ones.
        strategies: try only these, or all (default: windows over whole documents, and one position strategy).
        target: the target length in tokens (default: windows 32k, or what reads 95 % of the text; others
            8 times the trained length).
        quick: try the base, windows, late, BM25 and the hybrid alone, in one pass over the documents (default: only
            without judgements, or where rankings for judging are kept).
        judge: also write a page that asks for judgements where they are missing; existing ones are kept.
        bm25: whether BM25 and the fusion with it take part.
        device: cpu, cuda, cuda:1, mps, ... (default: the best of this machine).
        dtype: the compute type of bases and their candidates: fp32, bf16 or fp16 (default: the type in their files).
        output_folder: where finished work is kept (default: results).
    """

    metric: str | Sequence[str] = ()
    ignore_identical_ids: bool = False
    sample: int | None = None
    strategies: str | Sequence[str] = ()
    target: int | str | None = None
    quick: bool | None = None
    judge: bool = False
    bm25: bool = True
    device: str | None = None
    dtype: DType | None = None
    output_folder: str | Path = "results"
