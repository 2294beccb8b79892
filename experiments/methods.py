"""BM25, vectors and hybrids on collections whose queries differ: the tables of experiments/methods.md.

    python -m experiments.methods measure COLLECTIONS MODEL [COLLECTION ...]
    python -m experiments.methods page

COLLECTIONS is what `python -m experiments.measured_collections` wrote, MODEL a folder. What has finished is kept in
`results`, so an interrupted run goes on. Intervals are clustered by document, as in `compare`.
"""

import argparse
from pathlib import Path

import pandas as pd

from experiments.measuring import write_part
from mteb_longembed import compare
from mteb_longembed.comparing.compare import Comparison
from mteb_longembed.comparing.summary import resamples_of

RESULTS = Path("experiments/methods.csv")
PAGE = Path("experiments/methods.md")
WINDOWS = "MODEL+pcw@32768:"
#: What the page calls a way -> its name, with its settings in their order. MODEL stands for the model.
WAYS = {
    "BM25 by passage": "bm25:window=200",
    "words with neighbours": "bm25:window=200,expand=MODEL",
    "windows": f"{WINDOWS}score=softmax,vectors=window",
    "windows, whitened": f"{WINDOWS}score=softmax,vectors=window,whiten=0.5",
    "windows, idf, whitened": f"{WINDOWS}score=softmax,vectors=window,weights=idf,whiten=0.5",
    "words and plain windows": f"{WINDOWS}fusion=bm25,score=softmax,vectors=window",
    "words and windows, without idf": f"{WINDOWS}fusion=bm25,score=softmax,vectors=window,whiten=0.5",
    "words and windows": f"{WINDOWS}fusion=bm25,score=softmax,vectors=window,weights=idf,whiten=0.5",
}
#: Collection -> what its queries are.
TITLES = {
    "chapters_60": "sentences of chapters",
    "needle_4096": "hidden facts",
    "paraphrase_4096": "facts in other words",
    "passkey_4096": "passkeys",
    "proposals": "titles of sections",
    "questions": "questions in people's own words",
    "qmsum": "summaries of all meetings",
    "qmsum_60": "summaries of meetings",
}
#: The first ones are made of words or of vectors alone.
N_SINGLE = 5
#: What the other pages show.
SHORT_PAGES = (Path("README.md"), Path("docs/adapt.md"))
SHOWN = ("all-MiniLM-L6-v2", "multilingual-e5-small")
SHORT_TITLES = [TITLES[name] for name in ("questions", "proposals", "paraphrase_4096", "qmsum_60")]
SHORT = [
    "BM25 by passage",
    "words with neighbours",
    "windows",
    "windows, idf, whitened",
    "words and windows",
]


def rows_of(comparison: Comparison, names: dict[str, str]) -> pd.DataFrame:
    """One row for each way: its score, its interval, and the difference to the best one of words or vectors alone."""
    single = [names[way] for way in list(WAYS)[:N_SINGLE]]
    samples = resamples_of(comparison.scores, list(names.values()))
    best = max(single, key=samples.means.__getitem__)
    rows = []
    for way, name in names.items():
        own = samples.mean(name).scaled(100)
        less = samples.difference(best, name).scaled(100)
        rows.append(
            {
                "way": way,
                "score": own.mean,
                "low": own.low,
                "high": own.high,
                "to best single": less.mean,
                "less low": less.low,
                "less high": less.high,
                "documents": comparison.n_documents,
                "queries": comparison.setting.n_queries,
                "clusters": comparison.setting.n_clusters,
            }
        )
    return pd.DataFrame(rows)


def measure(folder: Path, model: Path, sample: int | None) -> None:
    """Measure all ways with a model on a collection, and put them in the place of those that the file has of it."""
    names = {way: name.replace("MODEL", str(model)) for way, name in WAYS.items()}
    files = {name: folder / f"{name}.jsonl" for name in ("corpus", "queries", "qrels")}
    comparison = compare(list(names.values()), bm25=False, metric="nDCG@10", sample=sample, **files)
    rows = rows_of(comparison, names)
    rows.insert(0, "collection", folder.name)
    rows.insert(0, "model", model.name)
    known = pd.DataFrame()
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["model"] != model.name) | (known["collection"] != folder.name)]
    pd.concat([known, rows]).to_csv(RESULTS, index=False, float_format="%.2f")
    print(rows.to_string(), flush=True)


def page() -> None:
    """Write the table of each model, and the short one of README and docs/adapt.md."""
    rows = pd.read_csv(RESULTS)
    rows["cell"] = rows["score"].map("{:.1f}".format)
    best = (rows["to best single"] == 0) & rows["way"].isin(list(WAYS)[:N_SINGLE])
    rows.loc[best, "cell"] = "**" + rows.loc[best, "cell"] + "**"
    surely = (rows["less low"] > 0) | (rows["less high"] < 0)
    rows.loc[surely, "cell"] += "*"
    rows["collection"] = rows["collection"].replace(TITLES)
    rows["titled"] = rows["collection"] + " (" + rows["clusters"].astype(str) + ")"
    for model, of_model in rows.groupby("model", sort=False):
        write_part(PAGE, str(model), _table(of_model, list(WAYS)))
    by_model = rows.pivot(index=["way", "collection"], columns="model", values="cell").fillna("-")
    joined = by_model[list(SHOWN)].agg(" / ".join, axis=1).rename("cell").reset_index()
    shown = joined.merge(rows[["collection", "titled"]].drop_duplicates("collection"))
    shown = shown[shown["collection"].isin(SHORT_TITLES)]
    for file in SHORT_PAGES:
        write_part(file, "ways", _table(shown, SHORT))


def _table(rows: pd.DataFrame, ways: list[str]) -> str:
    """Ways by collections."""
    table = rows.pivot(index="way", columns="titled", values="cell").loc[ways].fillna("")
    return str(table.reset_index().to_markdown(index=False, disable_numparse=True))


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure")
    measured.add_argument("collections", type=Path)
    measured.add_argument("model", type=Path)
    measured.add_argument("names", nargs="*", help="default: all folders")
    measured.add_argument("--sample", type=int, help="so many documents, all judged ones among them")
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "page":
        page()
        return
    for name in args.names or sorted(folder.name for folder in args.collections.iterdir()):
        measure(args.collections / name, args.model, args.sample)


if __name__ == "__main__":
    main()
