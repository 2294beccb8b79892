"""What does it cost to follow `compare`'s first line, and what does it save? The table of experiments/verdicts.md.

    python -m experiments.regret measure FOLDER MODEL COLLECTION
    python -m experiments.regret scores FOLDER MODEL
    python -m experiments.regret page

FOLDER is what `mteb-longembed compare MODEL ... --strategies pcw` wrote beside its page. Of its queries, about n are
drawn 200 times, always all that share a document; `compare`'s recommendation on them is scored on all other queries,
against the best candidate there, and its cost is set against that of the candidate with the highest score on the drawn
ones. Costs are those of the run. `scores`
keeps the scores of a run in `experiments/default_run.csv`: all-MiniLM-L6-v2 on all of QMSum.
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
from mteb_longembed.comparing.candidates import BM25, Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.summary import MARGIN, summarise
from mteb_longembed.comparing.verdict import Setting, advise, cheapest_named, cost
from mteb_longembed.retrieval.bm25_settings import BM25Settings
from mteb_longembed.statistics import resampling

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


def simulate(
    scores: pd.DataFrame,
    labels: pd.Series,
    candidates: Sequence[Candidate],
    costs: Mapping[str, Mapping[str, Any]],
    n: int,
) -> dict[str, float]:
    """Mean loss in points of each rule, what following `compare` saves, and how often its words are false."""
    (base,) = [one.id for one in candidates if one.is_base]
    draw = np.random.default_rng(n)
    rules = ("compare", "the cheapest named", "the highest", "the base", "BM25 by passage")
    losses: dict[str, list[float]] = {rule: [] for rule in rules}
    words = {"winner": [0, 0], "good enough": [0, 0]}
    spent = np.zeros((3, 2))
    for _ in range(DRAWS):
        # whole documents, until there are so many queries
        order = draw.permutation(labels.unique())
        n_before = labels.value_counts().loc[order].cumsum().shift(fill_value=0)
        drawn = labels.isin(n_before.index[n_before < n]).to_numpy()
        long = (
            scores[drawn]
            .melt(ignore_index=False, var_name="candidate", value_name="score")
            .reset_index(names="query")
        )
        long["groups"] = long["query"].map(labels).map(lambda label: [label])
        summary = summarise(long.assign(task="", split=""), candidates, costs)
        n_groups = labels[drawn].nunique()
        advice = advise(summary, Setting(n_queries=int(drawn.sum()), n_groups=n_groups))
        others = 100 * scores[~drawn].mean()
        rows = {row.Index: row for row in summary.itertuples()}
        named = rows[advice.recommended]
        if advice.verdict == "undecided":
            named = cheapest_named(list(rows.values()))
        chosen = {
            "compare": advice.recommended,
            "the cheapest named": named.Index,
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
        for number, name in enumerate((advice.recommended, named.Index, advice.best)):
            spent[number] += cost(rows[name])
    saved = 100 * (1 - spent[:2] / np.where(spent[2] > 0, spent[2], 1)) * (spent[2] > 0)
    result = {rule: float(np.mean(of_rule)) for rule, of_rule in losses.items()}
    for title, (encoding, storage) in zip(rules, saved, strict=False):
        result |= {f"encoding saved by {title}, %": encoding, f"storage saved by {title}, %": storage}
    for word, (n_said, n_false) in words.items():
        result |= {f"{word}, %": 100 * n_said / DRAWS, f"{word}, false, %": 100 * n_false / DRAWS}
    return result


def candidate_of(row: Mapping[str, Any]) -> Candidate:
    """The candidate of a row of a page, as far as the rule needs it."""
    words = BM25Settings.parse(row["candidate"]) if row["kind"] == "bm25" else None
    return Candidate(row["candidate"], row["base"], row["kind"], words=words)


def measure(folder: Path, model: str, collection: str) -> None:
    """Simulate one run, and put its rows in the place of those that the file has of it."""
    rows = json.loads((folder / "compare.json").read_text())["candidates"]
    names = [field.name for field in fields(Cost)]
    candidates = [candidate_of(row) for row in rows]
    costs = {row["candidate"]: {name: row[name] for name in names} for row in rows}
    frame = pd.read_parquet(folder / "scores.parquet")
    scores = frame.pivot(index="query", columns="candidate", values="score")
    labels = frame.drop_duplicates("query").set_index("query")["groups"].str[0].loc[scores.index]
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
    shown = rows[["label", "score", "low", "high", "vectors", "share_read"]].round(3)
    shown["label"] = shown["label"].str.replace(r"neighbours=.*/", "neighbours=", regex=True)
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
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("folder", type=Path)
    measured.add_argument("model")
    measured.add_argument("collection")
    scored = commands.add_parser("scores")
    scored.add_argument("folder", type=Path)
    scored.add_argument("model")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.folder, args.model, args.collection)
    elif args.command == "scores":
        keep_scores(args.folder, args.model)
    else:
        page()


if __name__ == "__main__":
    main()
