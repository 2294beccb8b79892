"""How much should words count beside vectors? The regrets of experiments/methods.md: `lexical_weight` and its rivals.

    python -m experiments.weights measure COLLECTIONS MODEL [COLLECTION ...]
    python -m experiments.weights page

COLLECTIONS and MODEL are as for `python -m experiments.methods`. All vectors come from one pass, as long as that of
`compare`, with whose runs it shares the embedding cache; a second run encodes nothing.
"""

from collections.abc import Sequence
from pathlib import Path

import mteb
import numpy as np
import pandas as pd
from bm25s.stopwords import STOPWORDS_EN_PLUS
from scipy import sparse

from experiments.forms import Known
from experiments.measuring import run, write_part
from experiments.methods import PAGE, TITLES
from mteb_longembed.comparing.costs import document_lengths
from mteb_longembed.data.task import files_task
from mteb_longembed.evaluation.evaluate import evaluate
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.retrieval.encoder import model_in
from mteb_longembed.retrieval.encoding import Pass
from mteb_longembed.retrieval.expansion import QueryExpansion
from mteb_longembed.retrieval.hybrid import lexical_evidence, surprise
from mteb_longembed.retrieval.make import searching
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.settings import LEXICAL_WEIGHT, WINDOW, BM25Settings, SearchSettings

RESULTS = Path("experiments/weights.csv")
WEIGHTS = (0.35, 0.5, 0.7, 1.0)
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
RULES = ("none", "of frequent", "frequent", "of function words", "all")


class Ruled(QueryExpansion):
    """Query expansion without the neighbours that a rule leaves out."""

    rule = "none"
    #: Whether each index term is in a third of the documents, bool `[terms]`.
    frequent = np.zeros(0, bool)

    def of(self, terms: Sequence[str], own: np.ndarray) -> sparse.csr_array:
        """Return the weights of the neighbours of query terms that are not left out."""
        found = super().of(terms, own).tocoo()
        left_out = np.zeros(found.nnz, bool)
        if self.rule in ("of frequent", "all"):
            left_out |= np.append(self.frequent, False)[own][found.row]
        if self.rule in ("frequent", "all"):
            left_out |= self.frequent[found.col]
        if self.rule in ("of function words", "all"):
            left_out |= np.array([term in STOPWORDS_EN_PLUS for term in terms], bool)[found.row]
        kept = (found.data[~left_out], (found.row[~left_out], found.col[~left_out]))
        return sparse.csr_array(kept, shape=found.shape)


def split_of(folder: Path) -> Split:
    """Return the split of a collection."""
    files = [folder / f"{name}.jsonl" for name in ("corpus", "queries", "qrels")]
    (split,) = splits_of(files_task(*files), [read_metric("nDCG@10")])
    return split


def by_rule(lexical: PassageBM25, expansion: Ruled) -> list[str]:
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
    plain = BM25Settings(window=WINDOW)
    bm25 = PassageBM25(plain)
    bm25.fit(documents)
    found["bm25"] = bm25.scores(queries)
    found["bm25 odds"] = bm25.log_odds(queries)

    bare = mteb.get_model(f"{model}+none")
    encoded = Pass(lambda: bare)
    base = searching(encoded, None, SearchSettings())
    base.fit(documents)
    found["base"] = base.scores(queries)
    expansion = Ruled(lambda terms: encoded.text_rows(base.representation, terms))
    lexical = PassageBM25(plain, expansion=expansion)
    lexical.fit(documents)
    for rule in by_rule(lexical, expansion):
        found[f"lexical/{rule}"] = lexical.scores(queries)

    reach = document_lengths([split], model_in(bare).tokenizer).covering()
    cut = mteb.get_model(f"{model}+pcw@{reach}")
    windowed = Pass(lambda: cut)
    windows = searching(windowed, "window", SearchSettings())
    late = searching(windowed, 16, SearchSettings(query="tokens"))
    fused = searching(windowed, "window", SearchSettings(fusion="bm25"))
    windowed.fit(documents)
    found["windows"] = windows.scores(queries)
    found["late"] = late.scores(queries)
    found["temperature"] = np.array([[fused.shown.temperature]])
    expansion = Ruled(lambda terms: windowed.text_rows(late.representation, terms))
    lexical = PassageBM25(plain, expansion=expansion)
    lexical.store_as(late.representation.precision)
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
    meta = mteb.get_model_meta("mteb/baseline-bm25s")
    rows = []
    for method, matrix in methods(matrices(split, str(model))).items():
        table = evaluate(Known(meta, dict(zip(queries, matrix, strict=True))), split)
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
    """Write the best single method of each collection, what hybrids differ from it, and what is lost by neighbours."""
    rows = pd.read_csv(RESULTS)
    scores = rows.pivot(index=["model", "collection"], columns="method", values="score")
    scores = scores.loc[list(dict.fromkeys(zip(rows["model"], rows["collection"], strict=True)))]
    single = scores[list(SINGLE)]
    hybrids = {title: scores[method] - single.max(axis=1) for title, method in COLUMNS.items()}
    regrets = pd.DataFrame(hybrids)
    for name, of_model in regrets.groupby("model", sort=False):
        regrets.loc[(name, "**the worst**"), :] = of_model.min()
    regrets.insert(
        0, "best single method", single.idxmax(axis=1) + " " + single.max(axis=1).map("{:.1f}".format)
    )
    write_part(PAGE, "weights", _table(regrets.sort_index(level=0, sort_remaining=False)))
    fewer = {}
    for kind, own in (("lexical", "lexical"), ("hybrid", f"hybrid, {LEXICAL_WEIGHT:g}")):
        for rule in RULES[1:]:
            fewer[f"{kind}, without {rule}"] = scores[f"{kind} without {rule}"] - scores[own]
    write_part(PAGE, "neighbours", _table(pd.DataFrame(fewer)))


def _table(cells: pd.DataFrame) -> str:
    """Return a table of differences by model and collection."""
    numbers = cells.select_dtypes("number").columns
    cells = cells.copy()
    cells[numbers] = cells[numbers].map("{:+z.1f}".format)
    shown = cells.fillna("").reset_index()
    shown["collection"] = shown["collection"].replace(TITLES)
    return str(shown.to_markdown(index=False, disable_numparse=True))


if __name__ == "__main__":
    run(__doc__, measure, page)
