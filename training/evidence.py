"""The measurements that `mteb-longembed list fit MODEL` shows: one length of the first task, for each base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from training.table import TUNED, Scores, lines_of, mean_of

FAMILIES = ("absolute", "rotary")


def write_evidence(path: Path, scores: Scores, task: str, bases: Sequence[str], length: int) -> None:
    """Write the scores of a base and its strategies at one length, for each of the two families."""
    found: dict[str, object] = {"measured": f"{task}, {length:,} tokens, Acc@1 in percent with 95 % interval"}
    for family, base in zip(FAMILIES, bases, strict=True):
        own = {"model": base}
        for strategy in lines_of(scores, task, base):
            cell = scores.get((task, base, strategy, str(length)))
            if cell is not None and not strategy.startswith(TUNED):
                own[strategy or "base"] = str(mean_of(cell))
        found[family] = own
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
