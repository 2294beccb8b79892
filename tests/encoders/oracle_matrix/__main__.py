"""Run the whole matrix and print how many cells ended in which way."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from . import architectures, cells

if __name__ == "__main__":
    ended: Counter[str] = Counter()
    models: dict[str, list[str]] = {}
    chosen = sys.argv[1:] or list(architectures.names())
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts = cells.check(name, Path(folder))
                how = "compared" if counts["equal"] else "refused by every strategy"
                ended.update(counts)
            except architectures.NotClaimed:
                continue
            except architectures.NotBuilt as error:
                how = f"not built: {error}"
            except cells.NotFollowed as error:
                how = f"not followed by the oracle: {error}"
            except AssertionError as error:
                how = f"OFF: {error}"
            except Exception as error:
                how = f"RAISED: {type(error).__name__}: {error}"
        print(f"{name}: {how} {dict(counts) if how == 'compared' else ''}", flush=True)
        models.setdefault(how.partition(":")[0], []).append(name)
    for how, which in models.items():
        print(f"{len(which)} architectures {how}: {', '.join(which)}")
    print(f"{sum(ended.values())} cells x {len(cells.LENGTHS)} lengths: {dict(ended)}")
    sys.exit(1 if {"OFF", "RAISED"} & set(models) else 0)
