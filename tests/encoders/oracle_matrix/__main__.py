"""Run the whole matrix, or the architectures that are named, and print what came of each and the counts."""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from . import architectures, cells


def line(name: str, outcome: cells.Outcome) -> str:
    """What became of one architecture."""
    parts = [f"{len(outcome.compared)} cells equal"]
    if outcome.compared:
        label, gap = max(outcome.compared.items(), key=lambda item: item[1])
        parts[0] += f" (at most {gap:.0e} off, {label})"
    for how, found in (
        ("refused", outcome.refused),
        ("FAILED", outcome.failed),
        ("unknown", outcome.unknown),
    ):
        if found:
            sentences: dict[str, list[str]] = {}
            for label, sentence in found.items():
                sentences.setdefault(sentence, []).append(label)
            told = "; ".join(f"{', '.join(labels)}: {sentence}" for sentence, labels in sentences.items())
            parts.append(f"{len(found)} {how} ({told})")
    return f"{name}: " + ", ".join(parts)


def main(chosen: Iterable[str]) -> int:
    """Print a line an architecture and the counts; 1 if a cell failed."""
    ended: Counter[str] = Counter()
    kinds: dict[str, list[str]] = {}
    worst = 0.0
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = cells.check(name, Path(folder))
            except architectures.NotClaimed:
                continue
            except architectures.NotBuilt as error:
                print(f"{name}: not built: {error}", flush=True)
                kinds.setdefault("not built", []).append(name)
                continue
        print(line(name, outcome), flush=True)
        kind = "compared" if outcome.compared else "refused" if outcome.refused else "unknown"
        kinds.setdefault("failed" if outcome.failed else kind, []).append(name)
        worst = max([worst, *outcome.compared.values()])
        for how in ("compared", "refused", "failed", "unknown"):
            ended[how] += len(getattr(outcome, how))
    for kind, names in kinds.items():
        print(f"{len(names)} architectures {kind}: {', '.join(names)}")
    print(f"cells: {dict(ended)}, each of {len(cells.LENGTHS)} lengths, at most {worst:.1e} off")
    return int(ended["failed"] > 0)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    names = (name for kind in architectures.names() for name in architectures.with_windows(kind))
    sys.exit(main(sys.argv[1:] or names))
