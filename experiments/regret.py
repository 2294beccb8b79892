"""What does it cost to follow `compare`'s first line, and what does it save? The table of docs/compare.md.

    python -m experiments.regret measure FOLDER MODEL COLLECTION
    python -m experiments.regret page

FOLDER is what `mteb-longembed compare MODEL ... --strategies pcw` wrote beside its page. Of its queries, n are drawn
500 times; `compare`'s recommendation on them is scored on all other queries, against the best candidate there, and its
cost is set against that of the candidate with the highest score on the drawn ones. Costs are those of the run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.measuring import write_part
from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import MARGIN, summarise
from mteb_longembed.comparing.verdict import Setting, advise, cost
from mteb_longembed.statistics import resampling

RESULTS = Path("experiments/regret.csv")
RUNS = Path("experiments/default_run.csv")
PAGE = Path("docs/compare.md")
SIZES = (12, 25, 50, 100)
DRAWS = 500
#: Fewer than in a comparison, so that 500 of them take minutes.
N_RESAMPLES = 2_000
#: A named winner that is more points than this behind the best is a false one.
TOLERANCE = 1.0


def simulate(
    scores: pd.DataFrame, candidates: Sequence[Candidate], costs: Mapping[str, Mapping[str, Any]], n: int
) -> dict[str, float]:
    """Mean loss in points of each rule, what following `compare` saves, and how often its words are false."""
    (base,) = [one.id for one in candidates if one.is_base]
    draw = np.random.default_rng(n)
    losses: dict[str, list[float]] = {"compare": [], "the highest": [], "the base": [], "BM25 by passage": []}
    words = {"winner": [0, 0], "good enough": [0, 0]}
    spent = np.zeros((2, 2))
    for _ in range(DRAWS):
        drawn = draw.permutation(len(scores)) < n
        long = (
            scores[drawn]
            .melt(ignore_index=False, var_name="candidate", value_name="score")
            .reset_index(names="query")
        )
        summary = summarise(long.assign(task="", split=""), candidates, costs)
        advice = advise(summary, Setting(n_queries=n))
        others = 100 * scores[~drawn].mean()
        chosen = {
            "compare": advice.recommended,
            "the highest": advice.best,
            "the base": base,
            "BM25 by passage": BM25,
        }
        for rule, name in chosen.items():
            losses[rule].append(others.max() - others[name])
        if advice.verdict in words:
            tolerance = TOLERANCE if advice.verdict == "winner" else MARGIN
            words[advice.verdict][0] += 1
            words[advice.verdict][1] += losses["compare"][-1] > tolerance
        rows = {row.Index: row for row in summary.itertuples()}
        for number, name in enumerate((advice.recommended, advice.best)):
            spent[number] += cost(rows[name])
    saved = 100 * (1 - spent[0] / np.where(spent[1] > 0, spent[1], 1))
    saved = np.where(spent[1] > 0, saved, 0)
    result = {rule: float(np.mean(of_rule)) for rule, of_rule in losses.items()}
    result |= {"encoding saved, %": float(saved[0]), "storage saved, %": float(saved[1])}
    for word, (n_said, n_false) in words.items():
        result |= {f"{word}, %": 100 * n_said / DRAWS, f"{word}, false, %": 100 * n_false / DRAWS}
    return result


def measure(folder: Path, model: str, collection: str) -> None:
    """Simulate one run, and put its rows in the place of those that the file has of it."""
    rows = json.loads((folder / "compare.json").read_text())["candidates"]
    names = [field.name for field in fields(Cost)]
    candidates = [Candidate(row["candidate"], row["base"], row["kind"]) for row in rows]
    costs = {row["candidate"]: {name: row[name] for name in names} for row in rows}
    frame = pd.read_parquet(folder / "scores.parquet")
    scores = frame.pivot(index="query", columns="candidate", values="score")
    resampling.N_RESAMPLES = N_RESAMPLES
    about = {"model": model, "collection": collection, "candidates": len(candidates)}
    new = [{**about, "queries": n, **simulate(scores, candidates, costs, n)} for n in SIZES]
    known = pd.DataFrame()
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["model"] != model) | (known["collection"] != collection)]
    pd.concat([known, pd.DataFrame(new)]).to_csv(RESULTS, index=False, float_format="%.2f")
    print(pd.DataFrame(new).to_string(), flush=True)


def page() -> None:
    """Write the table of the page."""
    rows = pd.read_csv(RESULTS).drop(columns=["candidates"])
    numbers = rows.columns.drop(["model", "collection", "queries"])
    rows[numbers] = rows[numbers].map("{:z.1f}".format)
    write_part(PAGE, "regret", rows.to_markdown(index=False, disable_numparse=True))


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("folder", type=Path)
    measured.add_argument("model")
    measured.add_argument("collection")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.folder, args.model, args.collection)
    else:
        page()


if __name__ == "__main__":
    main()
