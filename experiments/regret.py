"""What does it cost to follow `compare`'s first line? The table of docs/compare.md.

    python -m experiments.regret measure POINTS
    python -m experiments.regret default FOLDER MODEL
    python -m experiments.regret page

POINTS is `points.parquet` of `experiments.adapt`; FOLDER is what `mteb-longembed compare MODEL -t LongEmbedQMSum` wrote
beside its page, with all default candidates. Of each collection, n queries are drawn 1,000 times; `compare`'s
recommendation on them is scored on all other queries, against the best candidate there.
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

from experiments.adapt import NAMES
from experiments.measuring import write_part
from mteb_longembed.comparing.advice import Setting, advise
from mteb_longembed.comparing.candidates import BM25, Candidate, Kind
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import summarise

RESULTS = Path("experiments/regret.csv")
RUNS = Path("experiments/default_run.csv")
PAGE = Path("docs/compare.md")
COLLECTIONS = ("qmsum", "chapters", "proposals")
SIZES = (12, 25, 50, 100)
DRAWS = 1_000
#: A named winner that is more points than this behind the best is a false one.
TOLERANCE = 1.0
#: Name of a candidate -> its pooling, power and kind in the points. `m` stands for the model.
CANDIDATES = {
    "m+none@256": ("mean", "0.0", "first window"),
    "m+pcw@32k": ("mean", "0.0", "one vector"),
    "m+pcw@32k:whiten=0.5": ("mean", "0.5", "one vector"),
    "m+pcw@32k:weights=idf,whiten=0.5": ("idf", "0.5", "one vector"),
    "m+pcw@32k:vectors=window": ("mean", "0.0", "best window"),
    "m+pcw@32k:vectors=window,whiten=0.5": ("mean", "0.5", "best window"),
    "m+pcw@32k:vectors=window,weights=idf,whiten=0.5": ("idf", "0.5", "best window"),
    "m+pcw@32k:score=softmax,vectors=window": ("mean", "0.0", "all windows"),
    "m+pcw@32k:score=softmax,vectors=window,whiten=0.5": ("mean", "0.5", "all windows"),
    "m+pcw@32k:score=softmax,vectors=window,weights=idf,whiten=0.5": ("idf", "0.5", "all windows"),
    "m+pcw@32k:fuse=bm25,score=softmax,vectors=window,weights=idf,whiten=0.5": (
        "idf",
        "0.5",
        "all windows, fused",
    ),
    BM25: ("", "", "BM25 by passage"),
}
BASE = "m+none@256"


def scores_by_query(points: pd.DataFrame) -> pd.DataFrame:
    """A row for each query, a column for each candidate."""
    columns = {}
    for name, (pooling, power, way) in CANDIDATES.items():
        own = points[(points["way"] == way) & (points["pooling"] == pooling) & (points["whiten"] == power)]
        own = own[own["fitted on"].isin(["", "all"])]
        columns[name] = own.set_index("query")["score"]
    return pd.DataFrame(columns)


def candidate(name: str) -> Candidate:
    """What a name is; no model is there to say it."""
    if name == BM25:
        return Candidate(name, "", "words")
    kind: Kind = "search"
    if name == BASE:
        kind = "base"
    elif "fuse=bm25" in name:
        kind = "fusion"
    return Candidate(name, "m", kind)


def simulate(
    scores: pd.DataFrame, candidates: Sequence[Candidate], costs: Mapping[str, Mapping[str, Any]], n: int
) -> dict[str, float]:
    """Mean loss in points of each rule, and how often a named winner is a false one."""
    (base,) = [one.id for one in candidates if one.is_base]
    draw = np.random.default_rng(n)
    losses: dict[str, list[float]] = {"compare": [], "the leader": [], "the base": [], "BM25 by passage": []}
    named = 0
    false = 0
    for _ in range(DRAWS):
        drawn = draw.permutation(len(scores)) < n
        long = (
            scores[drawn]
            .melt(ignore_index=False, var_name="candidate", value_name="score")
            .reset_index(names="query")
        )
        long = long.assign(task="", split="")
        summary = summarise(long, candidates, costs)
        advice = advise(summary, Setting(n_queries=n))
        others = 100 * scores[~drawn].mean()
        chosen = {
            "compare": advice.recommended,
            "the leader": summary.index[0],
            "the base": base,
            "BM25 by passage": BM25,
        }
        for rule, name in chosen.items():
            losses[rule].append(others.max() - others[name])
        if advice.verdict == "winner":
            named += 1
            false += losses["compare"][-1] > TOLERANCE
    means = {rule: float(np.mean(of_rule)) for rule, of_rule in losses.items()}
    return {**means, "winners named, %": 100 * named / DRAWS, "false winners, %": 100 * false / DRAWS}


def measure(file: Path) -> None:
    """Simulate all models and collections."""
    points = pd.read_parquet(file)
    candidates = [candidate(name) for name in CANDIDATES]
    for (model, collection), own in points.groupby(["model", "collection"], sort=False):
        if collection in COLLECTIONS:
            keep(str(model), NAMES[str(collection)], scores_by_query(own), candidates, {})


def measure_default(folder: Path, model: str) -> None:
    """Simulate the default run on QMSum, with the measured costs of its candidates; and keep its scores."""
    rows = json.loads((folder / "compare.json").read_text())["candidates"]
    known = pd.read_csv(RUNS)
    shown = pd.DataFrame(rows)[["label", "score", "low", "high", "vectors", "share_read"]].round(3)
    shown.insert(0, "model", model)
    pd.concat([known[known["model"] != model], shown]).to_csv(RUNS, index=False)
    names = [field.name for field in fields(Cost)]
    candidates = [Candidate(row["candidate"], row["base"], row["kind"]) for row in rows]
    costs = {row["candidate"]: {name: row[name] for name in names} for row in rows}
    scores = pd.read_parquet(folder / "scores.parquet").pivot(
        index="query", columns="candidate", values="score"
    )
    keep(model, f"meetings, {len(candidates)} candidates", scores, candidates, costs)


def keep(
    model: str,
    collection: str,
    scores: pd.DataFrame,
    candidates: Sequence[Candidate],
    costs: Mapping[str, Mapping[str, Any]],
) -> None:
    """Simulate one collection, and put its rows in the place of those that the file has of it."""
    rows = pd.read_csv(RESULTS)
    rows = rows[(rows["model"] != model) | (rows["collection"] != collection)]
    about = {"model": model, "collection": collection}
    new = [{**about, "queries": n, **simulate(scores, candidates, costs, n)} for n in SIZES]
    print(pd.DataFrame(new), flush=True)
    pd.concat([rows, pd.DataFrame(new)]).to_csv(RESULTS, index=False, float_format="%.2f")


def page() -> None:
    """Write the table of the page: each cell holds the numbers of all `SIZES`."""
    rows = pd.read_csv(RESULTS)
    columns = list(rows.columns.drop(["model", "collection", "queries"]))
    by_collection = rows.groupby(["model", "collection"], sort=False)[columns]
    cells = by_collection.agg(lambda numbers: "/".join(f"{number:.1f}" for number in numbers))
    write_part(PAGE, "regret", cells.reset_index().to_markdown(index=False, disable_numparse=True))


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("points", type=Path)
    default = commands.add_parser("default")
    default.add_argument("folder", type=Path)
    default.add_argument("model")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.points)
    elif args.command == "default":
        measure_default(args.folder, args.model)
    else:
        page()


if __name__ == "__main__":
    main()
