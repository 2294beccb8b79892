"""How much should words count beside vectors? The regrets of experiments/methods.md: `lexical_weight` and its rivals.

    python -m experiments.weights measure COLLECTIONS MODEL [COLLECTION ...]
    python -m experiments.weights page

COLLECTIONS and MODEL are as for `python -m experiments.methods`. All vectors come from one pass, as long as that of
`compare`, with whose runs it shares the embedding cache; a second run encodes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bm25s.stopwords import STOPWORDS_EN_PLUS
from scipy import sparse

from experiments.forms import Known
from experiments.measuring import run, write_part
from experiments.methods import PAGE, TITLES
from mteb_longembed.comparing.costs import document_lengths
from mteb_longembed.data.task import files_task
from mteb_longembed.encoders.method import LEXICAL_WEIGHT, Method
from mteb_longembed.encoders.resolved import resolve
from mteb_longembed.evaluation.evaluate import evaluate
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.names import MTEB_BM25
from mteb_longembed.retrieval.encoder import load_encoder
from mteb_longembed.retrieval.encoding import Encoding
from mteb_longembed.retrieval.expansion import QueryExpansion
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.make import WINDOW, index_over
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scores import lexical_evidence, surprise

RESULTS = Path("experiments/weights.csv")
#: Measured by others, on collections that developers have not seen.
KEPT_BACK = Path("experiments/kept_back.csv")
README = Path("README.md")
WEIGHTS = (0.35, 0.5, 0.7, 1.0)
#: How a difference in points is written.
SIGNED = "{:+z.1f}".format
#: The methods that a hybrid joins.
SINGLE = ("base", "windows", "late", "bm25", "lexical")
#: What the page calls a hybrid -> its method.
COLUMNS = {
    **{f"{weight:g}": f"hybrid, {weight:g}" for weight in WEIGHTS},
    "scaled": "hybrid, scaled",
    "saturated": "hybrid, saturated",
    **{f"with windows, {weight:g}": f"hybrid and windows, {weight:g}" for weight in WEIGHTS[1:]},
}
#: Which neighbours of a query's words are left out.
RULES = ("none", "of frequent words", "frequent ones", "of function words", "all of these")


class Ruled(QueryExpansion):
    """Query expansion without the neighbours that a rule leaves out."""

    rule = "none"
    #: Whether each index term is in a third of the documents, bool `[terms]`.
    frequent = np.zeros(0, bool)

    def of(self, terms: Sequence[str], own: np.ndarray) -> sparse.csr_array:
        """Return the weights of the neighbours of query terms that are not left out."""
        found = super().of(terms, own).tocoo()
        left_out = np.zeros(found.nnz, bool)
        if self.rule in ("of frequent words", "all of these"):
            left_out |= np.append(self.frequent, False)[own][found.row]
        if self.rule in ("frequent ones", "all of these"):
            left_out |= self.frequent[found.col]
        if self.rule in ("of function words", "all of these"):
            left_out |= np.array([term in STOPWORDS_EN_PLUS for term in terms], bool)[found.row]
        kept = (found.data[~left_out], (found.row[~left_out], found.col[~left_out]))
        return sparse.csr_array(kept, shape=found.shape)


def split_of(folder: Path) -> Split:
    """Return the split of a collection."""
    files = [folder / f"{name}.jsonl" for name in ("corpus", "queries", "qrels")]
    (split,) = splits_of(files_task(*files), [read_metric("nDCG@10")])
    return split


def by_rule(lexical: PassageBM25, expansion: Ruled) -> Iterator[str]:
    """Yield the rules, each set on the expansion of a lexical scorer."""
    lexical.scores(["a"])  # reads the documents
    frequencies = lexical._whole._document_frequencies
    expansion.frequent = 3 * frequencies >= len(lexical._whole)
    for rule in RULES:
        expansion.rule = rule
        yield rule


def matrices(split: Split, model: str) -> dict[str, np.ndarray]:
    """Return the scores of single methods and the parts of hybrids, `[queries, documents]` each."""
    queries = list(split.judged_queries.values())
    documents = split.documents
    found = {}
    plain = Method(MTEB_BM25, None, window=WINDOW)
    bm25 = PassageBM25(plain)
    bm25.fit(documents)
    found["bm25"] = bm25.scores(queries)
    found["bm25 odds"] = bm25.log_odds(queries)

    bare = resolve(Method(model))
    encoding = Encoding(load_encoder(bare))
    base = index_over(encoding, bare)
    base.fit(documents)
    found["base"] = base.scores(queries)
    expansion = Ruled(lambda terms: encoding.text_rows(base.vectors[0].stored, terms))
    lexical = PassageBM25(plain, expansion=expansion)
    lexical.fit(documents)
    for rule in by_rule(lexical, expansion):
        found[f"lexical/{rule}"] = lexical.scores(queries)

    reach = document_lengths([split], encoding.encoder.model.tokenizer).covering()
    cut = resolve(Method(model, "pcw", reach))
    windowed = Encoding(load_encoder(cut))

    def over(**settings: Any) -> Index:
        return index_over(windowed, replace(cut, method=replace(cut.method, **settings)))

    windows = over(vectors="window")
    late = over(vectors=16, query="tokens")
    fused = over(vectors="window", fusion="bm25")
    windowed.fit(documents)
    found["windows"] = windows.scores(queries)
    found["late"] = late.scores(queries)
    found["temperature"] = np.array([[fused.vectors[0].temperature]])
    expansion = Ruled(lambda terms: windowed.text_rows(late.vectors[0].stored, terms))
    lexical = PassageBM25(plain, expansion=expansion)
    lexical.store_as(late.vectors[0].stored.precision)
    lexical.fit(documents)
    for rule in by_rule(lexical, expansion):
        found[f"odds/{rule}"] = lexical.log_odds(queries)
    return found


def scaled_to(lexical: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """Return lexical evidence `[queries, documents]` whose best is at most the best dense evidence of a query.

    >>> scaled_to(np.array([[8.0, 2.0]]), np.array([[0.0, 4.0]])).tolist()
    [[4.0, 1.0]]
    """
    room = np.maximum(dense.max(axis=1, keepdims=True), 0)
    highest = np.maximum(lexical.max(axis=1, keepdims=True), 1e-9)
    scaled: np.ndarray = lexical * np.minimum(1, room / highest)
    return scaled


def saturated(lexical: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """Return lexical evidence that approaches the best dense evidence of a query, and is near itself if small.

    >>> saturated(np.array([[8.0, 0.1]]), np.array([[0.0, 4.0]])).round(2).tolist()
    [[3.46, 0.1]]
    """
    room = np.maximum(dense.max(axis=1, keepdims=True), 1e-9)
    return np.where(lexical > 0, room * -np.expm1(-lexical / room), lexical)


def methods(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the scores of all methods: single ones, then hybrids by their weight, bound and neighbours."""
    cells = {name: found[name] for name in SINGLE[:-1]}
    cells["lexical"] = found["lexical/none"]
    dense = surprise(found["late"])
    of_windows = found["windows"] / np.float32(found["temperature"].item())
    lexical = lexical_evidence(found["odds/none"])
    for weight in WEIGHTS:
        cells[f"hybrid, {weight:g}"] = dense + weight * lexical
        cells[f"windows and words, {weight:g}"] = of_windows + weight * lexical
        cells[f"hybrid and windows, {weight:g}"] = (dense + of_windows) / 2 + weight * lexical
    cells["hybrid, scaled"] = dense + scaled_to(lexical, dense)
    cells["hybrid, saturated"] = dense + saturated(lexical, dense)
    for rule in RULES[1:]:
        cells[f"lexical without {rule}"] = found[f"lexical/{rule}"]
        fewer = lexical_evidence(found[f"odds/{rule}"])
        cells[f"hybrid without {rule}"] = dense + LEXICAL_WEIGHT * fewer
    return cells


def measure(folder: Path, model: Path, dtype: str) -> None:
    """Measure all methods with a model on a collection, and replace the old rows of the file."""
    if dtype != "fp32":
        raise SystemExit("weights are measured in fp32.")
    split = split_of(folder)
    queries = list(split.judged_queries.values())
    rows = []
    for method, matrix in methods(matrices(split, str(model))).items():
        table = evaluate(Known("method", "1", dict(zip(queries, matrix, strict=True))), split)
        cell = {"model": model.name, "collection": folder.name, "method": method}
        rows.append({**cell, "score": 100 * table["score"].mean()})
    made = pd.DataFrame(rows)
    made["queries"] = len(split.judged)
    made["documents"] = len(split.documents)
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["model"] != model.name) | (known["collection"] != folder.name)]
        made = pd.concat([known, made])
    made.to_csv(RESULTS, index=False, float_format="%.2f")
    print(model.name, folder.name, flush=True)


def page() -> None:
    """Write the differences to the best single method into methods.md and README, and what neighbours are worth."""
    scores = _scores(RESULTS)
    regrets = _regrets(scores)
    kept_back = _regrets(_scores(KEPT_BACK))
    worst = regrets.groupby(level="model", sort=False).min()
    worst.index = pd.MultiIndex.from_product([["**the worst**"], worst.index], names=regrets.index.names)
    write_part(PAGE, "weights", _table(pd.concat([_with_best(regrets, scores), worst])))
    shown = _with_best(kept_back, _scores(KEPT_BACK))
    least = kept_back.min().to_frame().T
    least.index = pd.MultiIndex.from_tuples([("**the worst**", "")], names=regrets.index.names)
    write_part(PAGE, "kept back", _table(pd.concat([shown, least]).dropna(axis=1, how="all")))
    lines = []
    for where, table in ((" ", regrets), (", kept back", kept_back)):
        for model, of_model in table.groupby(level="model", sort=False):
            own = of_model[f"{LEXICAL_WEIGHT:g}"].droplevel("model")
            ends = [
                f"{SIGNED(own[name])} ({TITLES.get(name, name)})" for name in (own.idxmin(), own.idxmax())
            ]
            name = f"{model}{where}".strip()
            lines.append({"model": name, "collections": len(own), "the worst": ends[0], "the best": ends[1]})
    write_part(README, "regrets", str(pd.DataFrame(lines).to_markdown(index=False, disable_numparse=True)))
    fewer = {}
    for rule in RULES[1:]:
        cells = []
        for kind, own in (("lexical", "lexical"), ("hybrid", f"hybrid, {LEXICAL_WEIGHT:g}")):
            less = scores[f"{kind} without {rule}"] - scores[own]
            cells.append(less.map(SIGNED))
        fewer[rule] = cells[0] + ", " + cells[1]
    write_part(PAGE, "neighbours", _table(pd.DataFrame(fewer)))


def _scores(file: Path) -> pd.DataFrame:
    """Return the scores of a file: a row for each model and collection, a column for each method."""
    rows = pd.read_csv(file)
    scores = rows.pivot(index=["model", "collection"], columns="method", values="score")
    return scores.loc[sorted(dict.fromkeys(zip(rows["model"], rows["collection"], strict=True)))]


def _regrets(scores: pd.DataFrame) -> pd.DataFrame:
    """Return what each hybrid differs from the best single method that was measured."""
    best = scores[[name for name in SINGLE if name in scores]].max(axis=1)
    of_columns = {title: scores[name] - best for title, name in COLUMNS.items() if name in scores}
    return pd.DataFrame(of_columns)


def _with_best(regrets: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return regrets with the name and the score of the best single method."""
    single = scores[[name for name in SINGLE if name in scores]]
    named = single.idxmax(axis=1) + " " + single.max(axis=1).map("{:.1f}".format)
    return pd.concat([named.rename("best single method"), regrets], axis=1)


def _table(cells: pd.DataFrame) -> str:
    """Return a table of differences by model and collection."""
    numbers = cells.select_dtypes("number").columns
    cells = cells.copy()
    cells[numbers] = cells[numbers].map(SIGNED, na_action="ignore")
    shown = cells.reset_index().fillna("")
    shown["collection"] = shown["collection"].replace(TITLES)
    return str(shown.to_markdown(index=False, disable_numparse=True))


if __name__ == "__main__":
    run(__doc__, measure, page)
