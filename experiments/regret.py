"""What does it cost to follow `compare`'s first line, and what does it save? The table of experiments/verdicts.md.

    python -m experiments.regret measure FOLDER MODEL COLLECTION
    python -m experiments.regret scores FOLDER MODEL
    python -m experiments.regret page

FOLDER is what `mteb-longembed compare MODEL ... --strategies pcw` wrote beside its page. Of its queries, about n are
drawn 200 times, always all that share a document; `compare`'s recommendation on them is scored on all other queries,
against the best candidate there, and its cost is compared with the cost of the candidate that scores highest on the
sampled ones. Costs come from the run. `scores` keeps the scores of a run in `experiments/default_run.csv`:
all-MiniLM-L6-v2 on all of QMSum.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.measuring import write_part
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import MARGIN, summarise
from mteb_longembed.comparing.verdict import Setting, advise, cheapest_named, operations_of, size_of
from mteb_longembed.encoders.method import Method
from mteb_longembed.evaluation import resampling

RESULTS = Path("experiments/regret.csv")
RUNS = Path("experiments/default_run.csv")
PAGE = Path("experiments/verdicts.md")
#: Whose rule is followed. The file keeps the rows of 0.6 and 0.7, which had other ones.
VERSION = 0.8
SIZES = (12, 25, 50, 100)
DRAWS = 200
#: What the page shows, and how it calls it.
COLUMNS = {
    "model": "model",
    "collection": "collection",
    "queries": "queries",
    "compare": "compare",
    "the highest": "the highest",
    "the cheapest named": "the cheapest named",
    "encoding saved by the cheapest named, %": "saves of encoding, %",
    "storage saved by the cheapest named, %": "saves of storage, %",
    "winner, false, %": "false winner, %",
    "good enough, false, %": "false good enough, %",
}
#: Fewer than in a comparison, so that 200 of them take minutes.
N_RESAMPLES = 1_000
#: A named winner that is more points than this behind the best is a false one.
TOLERANCE = 1.0


def drawn(labels: pd.Series, n: int, draw: np.random.Generator) -> np.ndarray:
    """Sample queries, always all of a document, until there are `n`."""
    order = draw.permutation(labels.unique())
    n_before = labels.value_counts().loc[order].cumsum().shift(fill_value=0)
    return labels.isin(n_before.index[n_before < n]).to_numpy()


def simulate(
    scores: pd.DataFrame,
    labels: pd.Series,
    candidates: Sequence[Candidate],
    costs: Mapping[str, Cost],
    n: int,
) -> dict[str, float]:
    """Mean loss in points of each rule, what the cheapest one saves, and how often words are false."""
    draw = np.random.default_rng(n)
    rows = []
    for _ in range(DRAWS):
        chosen = drawn(labels, n, draw)
        long = scores[chosen].melt(ignore_index=False, var_name="candidate", value_name="score")
        long = long.reset_index(names="query").assign(task="", split="")
        long["clusters"] = long["query"].map(labels).map(lambda label: [label])
        rows_of_draw = summarise(long, candidates, costs)
        setting = Setting(n_queries=int(chosen.sum()), n_clusters=labels[chosen].nunique())
        advice = advise(rows_of_draw, setting)
        found = {row.id: row for row in rows_of_draw}
        named = found[advice.recommended]
        if advice.verdict == "undecided":
            named = cheapest_named(list(found.values()))
        others = 100 * scores[~chosen].mean()
        losses = others.max() - others[[advice.recommended, advice.best, named.id]].to_numpy()
        spent = [
            value for row in (named, found[advice.best]) for value in (operations_of(row), size_of(row)[0])
        ]
        rows.append([*losses, *spent, advice.verdict])
    names = [
        "compare",
        "the highest",
        "the cheapest named",
        "encoding",
        "storage",
        "all encoding",
        "all storage",
    ]
    frame = pd.DataFrame(rows, columns=[*names, "verdict"])
    result = {name: float(frame[name].mean()) for name in names[:3]}
    for what in ("encoding", "storage"):
        spent = frame[f"all {what}"].sum()
        saved = 100 * (1 - frame[what].sum() / spent) if spent else 0.0
        result[f"{what} saved by the cheapest named, %"] = saved
    for word, tolerance in (("winner", TOLERANCE), ("good enough", MARGIN)):
        said = frame["verdict"] == word
        result[f"{word}, %"] = 100 * said.mean()
        result[f"{word}, false, %"] = 100 * (said & (frame["compare"] > tolerance)).mean()
    return result


def candidate_of(row: Mapping[str, Any]) -> Candidate:
    """The candidate of a row of a page, as far as the rule needs it."""
    return Candidate(row["candidate"], row["kind"], Method.parse(row["candidate"]))


def measure(folder: Path, model: str, collection: str) -> None:
    """Simulate one run, and put its rows in the place of those that the file has of it."""
    rows = json.loads((folder / "compare.json").read_text())["candidates"]
    names = [field.name for field in fields(Cost)]
    candidates = [candidate_of(row) for row in rows]
    costs = {row["candidate"]: Cost(**{name: row[name] for name in names}) for row in rows}
    frame = pd.read_parquet(folder / "scores.parquet")
    scores = frame.pivot(index="query", columns="candidate", values="score")
    labels = frame.drop_duplicates("query").set_index("query")["clusters"].str[0].loc[scores.index]
    resampling.N_RESAMPLES = N_RESAMPLES
    about = {"version": VERSION, "model": model, "collection": collection, "candidates": len(candidates)}
    sizes = [n for n in SIZES if n <= len(scores) / 2]  # the others are scored
    new = [{**about, "queries": n, **simulate(scores, labels, candidates, costs, n)} for n in sizes]
    known = pd.DataFrame()
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        own = (known["version"] == VERSION) & (known["model"] == model) & (known["collection"] == collection)
        known = known[~own]
    pd.concat([known, pd.DataFrame(new)]).to_csv(RESULTS, index=False, float_format="%.2f")
    print(pd.DataFrame(new).to_string(), flush=True)


def keep_scores(folder: Path, model: str) -> None:
    """Put the scores of a run in the place of those that the file has of the model."""
    rows = pd.DataFrame(json.loads((folder / "compare.json").read_text())["candidates"])
    # the labels of a page depend on what else it shows
    rows["label"] = [row.candidate.removeprefix(row.base) for row in rows.itertuples()]
    rows.loc[rows["is_base"], "label"] = "base"
    shown = rows[["label", "score", "score_low", "score_high", "vectors", "share_read"]].round(3)
    shown.insert(0, "model", model)
    known = pd.read_csv(RUNS)
    pd.concat([known[known["model"] != model], shown]).to_csv(RUNS, index=False)


def page() -> None:
    """Write the table of the page."""
    rows = pd.read_csv(RESULTS)
    rows = rows[rows["version"] == VERSION].sort_values(["model", "collection", "queries"])[list(COLUMNS)]
    numbers = rows.columns.drop(["model", "collection", "queries"])
    rows[numbers] = rows[numbers].map("{:z.1f}".format)
    rows = rows.rename(columns=COLUMNS)
    write_part(PAGE, "regret", rows.to_markdown(index=False, disable_numparse=True))


def main() -> None:
    """Simulate a run, keep its scores, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["measure", "scores", "page"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("collection", nargs="?")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.folder, args.model, args.collection)
    elif args.command == "scores":
        keep_scores(args.folder, args.model)
    else:
        page()


if __name__ == "__main__":
    main()
