"""BM25, vectors and hybrids on collections whose queries differ: the tables of experiments/methods.md.

    python -m experiments.methods measure COLLECTIONS MODEL [COLLECTION ...] [--dtype bf16]
    python -m experiments.methods page

COLLECTIONS is what `python -m experiments.measured_collections` wrote, MODEL a folder. What has finished is kept in
`results`, so an interrupted run goes on. Intervals are clustered by document, as in `compare`.
"""

from pathlib import Path

import pandas as pd

from experiments.measuring import run, write_part
from mteb_longembed import compare
from mteb_longembed.comparing.candidates import named
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.summary import resamples_of
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import resolve

RESULTS = Path("experiments/methods.csv")
PAGE = Path("experiments/methods.md")
#: What the page calls a method -> its name. MODEL stands for the model.
METHODS = {
    "BM25 by passage": "bm25:window=200",
    "BM25 with query expansion": "MODEL+lexical",
    "`windows`": "MODEL+pcw@32768:vectors=window",
    "all windows, plain": "MODEL+pcw@32768:score=softmax,vectors=window",
    "all windows, idf, whitened": "MODEL+pcw@32768:score=softmax,vectors=window,weights=idf,whiten=0.5",
    "`late`": "MODEL+pcw@32768:query=tokens,vectors=16",
    "`windows:fusion=bm25`": "MODEL+pcw@32768:fusion=bm25,vectors=window",
    "`windows:fusion=bm25,lexical_weight=1`": "MODEL+pcw@32768:fusion=bm25,lexical_weight=1,vectors=window",
    "`hybrid`": "MODEL+pcw@32768:fusion=bm25,query=tokens,vectors=16",
    "`hybrid:lexical_weight=1`": "MODEL+pcw@32768:fusion=bm25,lexical_weight=1,query=tokens,vectors=16",
}
#: The same for models with late interaction and for sparse models.
TOKEN_METHODS = {
    "BM25 by passage": "bm25:window=200",
    "stock, first tokens": "MODEL+none",
    "whole document": "MODEL+pcw@32768",
    "best window": "MODEL+pcw@32768:vectors=window",
    "whole document and BM25": "MODEL+pcw@32768:fusion=bm25",
    "best window and BM25": "MODEL+pcw@32768:fusion=bm25,vectors=window",
}
#: Collection -> what its queries are.
TITLES = {
    "chapters_60": "sentences of chapters",
    "needle_4096": "hidden facts",
    "paraphrase_4096": "facts in other words",
    "proposals": "titles of sections",
    "questions_240": "questions in people's own words",
    "manual_pages": "questions about manual pages",
    "qmsum_60": "summaries of meetings",
    "qmsum": "summaries of all meetings",
    "passkey_4096": "passkeys",
    # smaller ones, for slow models and the laboratory's
    "chapters_30": "sentences of 30 chapters",
    "proposals_400": "titles of 400 sections",
    "qmsum_15": "summaries of 15 meetings",
    "needle_1024": "hidden facts, 1,024 tokens",
    "paraphrase_1024": "facts in other words, 1,024 tokens",
    "passkey_1024": "passkeys, 1,024 tokens",
}
#: What the other pages show.
SHORT_PAGES = (Path("README.md"), Path("docs/adapt.md"))
SHOWN = ("all-MiniLM-L6-v2",)
SHORT_TITLES = [TITLES[name] for name in ("questions_240", "manual_pages", "proposals", "qmsum_60")]
SHORT = ["BM25 by passage", "BM25 with query expansion", "`windows`", "`late`", "`hybrid`"]


def rows_of(comparison: Comparison, names: dict[str, str]) -> pd.DataFrame:
    """Return a row for each method: its score, its interval, and the difference to the best one that is no hybrid."""
    single = [name for method, name in names.items() if not is_hybrid(method)]
    samples = resamples_of(comparison.scores, list(names.values()))
    best = max(single, key=samples.means.__getitem__)
    rows = []
    for method, name in names.items():
        own = samples.mean(name).scaled(100)
        less = samples.difference(best, name).scaled(100)
        rows.append(
            {
                "method": method,
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


def is_hybrid(method: str) -> bool:
    """Return whether a method adds the scores of BM25 to a model's."""
    return "fusion=bm25" in (METHODS | TOKEN_METHODS)[method]


def measure(folder: Path, model: Path, dtype: str) -> None:
    """Measure all methods with a model on a collection, and replace the old rows of the file."""
    kind = resolve(Method.parse_model(f"{model}+none")).base.family
    methods = METHODS if kind == "dense" else TOKEN_METHODS
    names = {}
    for method, name in methods.items():
        given = named(name.replace("MODEL", str(model))).id
        if dtype != "fp32":
            given = named(given.replace("+pcw@32768:", f"+pcw@32768:dtype={dtype},")).id
        names[method] = given
    files = {name: folder / f"{name}.jsonl" for name in ("corpus", "queries", "qrels")}
    comparison = compare(list(names.values()), bm25=False, metric="nDCG@10", **files)
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
    best = (rows["to best single"] == 0) & ~rows["method"].map(is_hybrid)
    rows.loc[best, "cell"] = "**" + rows.loc[best, "cell"] + "**"
    surely = (rows["less low"] > 0) | (rows["less high"] < 0)
    rows.loc[surely, "cell"] += "*"
    rows["collection"] = rows["collection"].replace(TITLES)
    rows["titled"] = rows["collection"] + " (" + rows["clusters"].astype(str) + ")"
    for model, of_model in rows.groupby("model", sort=False):
        write_part(PAGE, str(model), _table(of_model, list(dict.fromkeys(of_model["method"]))))
    by_model = rows.pivot(index=["method", "collection"], columns="model", values="cell").fillna("-")
    joined = by_model[list(SHOWN)].agg(" / ".join, axis=1).rename("cell").reset_index()
    shown = joined.merge(rows[["collection", "titled"]].drop_duplicates("collection"))
    shown = shown[shown["collection"].isin(SHORT_TITLES)]
    for file in SHORT_PAGES:
        write_part(file, "methods", _table(shown, SHORT))


def _table(rows: pd.DataFrame, methods: list[str]) -> str:
    """Return a table of methods by collections."""
    table = rows.pivot(index="method", columns="titled", values="cell").loc[methods].fillna("")
    return str(table.reset_index().to_markdown(index=False, disable_numparse=True))


if __name__ == "__main__":
    run(__doc__, measure, page)
