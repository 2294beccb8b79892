"""How often does an interval of `compare` miss the truth, and how often is a word false? The tables of verdicts.md.

    python -m experiments.verdicts FOLDER

FOLDER has QMSum's corpus, queries and qrels, as LongEmbed publishes them. Each finished cell is a row of
`experiments/verdicts.csv`, so the same command goes on where it was stopped.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.measuring import write_part
from mteb_longembed.comparing.summary import ENOUGH_SHARE, MARGIN
from mteb_longembed.data.task import files_task
from mteb_longembed.encoders.method import Method
from mteb_longembed.evaluation import resampling
from mteb_longembed.evaluation.evaluate import evaluate
from mteb_longembed.evaluation.resampling import Labels, resample
from mteb_longembed.evaluation.split import splits_of
from mteb_longembed.retrieval.make import make_bm25

RESULTS = Path("experiments/verdicts.csv")
PAGE = Path("experiments/verdicts.md")
DRAWS = 1_000
#: Draws of meetings: all pairs of candidates are compared in each.
MEETING_DRAWS = 400
#: Fewer than in a comparison, so that the simulations take minutes.
N_RESAMPLES = 2_000
SIZES = (10, 25, 50, 100, 200, 400)
MEETINGS = (12, 25, 40)
BM25 = (
    "bm25@512",
    "bm25@2048",
    "bm25@4096",
    "bm25:query=sentences",
    "bm25:window=200",
    "bm25:window=200,score=max",
    "bm25:window=100",
    "bm25:window=200,query=sentences",
)


@dataclass(frozen=True)
class Drawn:
    """The scores of two candidates on some queries, the labels of these, and how far the second one truly is above."""

    first: np.ndarray
    second: np.ndarray
    truth: float
    labels: Labels | None = None


Make = Callable[[np.random.Generator, int], Drawn]


def _ndcg(ranks: np.ndarray) -> np.ndarray:
    return np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)


def like_ndcg(rng: np.random.Generator, n: int) -> Drawn:
    """Each query has a difficulty, and each of two equal candidates draws a rank of its one relevant document."""
    easy = np.clip(rng.beta(0.6, 0.4, n), 0.05, 0.98)
    first, second = _ndcg(rng.geometric(easy, size=(2, n)))
    return Drawn(first, second, 0.0)


def right_or_wrong(rng: np.random.Generator, n: int, behind: float = 0.1) -> Drawn:
    """Right on 80 and on 70 % of the queries, each on its own."""
    first, second = rng.random((2, n))
    return Drawn((first < 0.8).astype(float), (second < 0.8 - behind).astype(float), -behind)


def few_fail(rng: np.random.Generator, n: int, share: float = 0.1) -> Drawn:
    """The second one is wrong on 10 % of the queries, the first one never."""
    return Drawn(np.ones(n), (rng.random(n) >= share).astype(float), -share)


def a_little(rng: np.random.Generator, n: int) -> Drawn:
    """The second one has about two points less on each query."""
    first = 0.4 + 0.2 * rng.random(n)
    return Drawn(first, first + rng.normal(-MARGIN / 100, 0.05, n), -MARGIN / 100)


def whole_documents(rng: np.random.Generator, n: int, size: int = 12) -> Drawn:
    """Two equal candidates: each document, with all its queries, is won by one of them."""
    won = np.repeat(rng.choice([-0.5, 0.5], n), size)
    difference = won * (rng.random(n * size) < 0.7)
    labels = [[document] for document in np.repeat(np.arange(n), size).tolist()]
    return Drawn(0.5 - difference / 2, 0.5 + difference / 2, 0.0, labels)


def many_judged(n_documents: int, n_judged: int, *, matters: bool) -> Make:
    """Two equal candidates, on queries with several of these documents each.

    Args:
        n_documents: of the pool.
        n_judged: relevant ones of each query.
        matters: whether a document is won by one of the candidates for all its queries, or each query on its own.
    """

    def make(rng: np.random.Generator, n: int) -> Drawn:
        judged = np.array([rng.choice(n_documents, n_judged, replace=False) for _ in range(n)])
        difference = rng.choice([-0.5, 0.0, 0.5], n)
        if matters:
            difference = rng.choice([-1.0, 1.0], n_documents)[judged].mean(axis=1) * (rng.random(n) < 0.8)
        return Drawn(0.5 - difference / 2, 0.5 + difference / 2, 0.0, judged.tolist())

    return make


INDEPENDENT: dict[str, Make] = {
    "ranks (nDCG@10), equal": like_ndcg,
    "right on 80 and on 70 %": right_or_wrong,
    "wrong never and on 10 %": few_fail,
    "a little on each query": a_little,
}
TWO_POINTS: dict[str, Make] = {
    "a little on each query": a_little,
    "right on 80 and on 78 %": partial(right_or_wrong, behind=MARGIN / 100),
    "wrong never and on 2 %": partial(few_fail, share=MARGIN / 100),
}
JUDGED: dict[str, Make] = {
    "3 of 40 documents, whole documents are won": many_judged(40, 3, matters=True),
    "10 of 100 documents, whole documents are won": many_judged(100, 10, matters=True),
    "5 of 1,000 documents, whole documents are won": many_judged(1_000, 5, matters=True),
    "3 of 40 documents, each query on its own": many_judged(40, 3, matters=False),
    "5 of 1,000 documents, each query on its own": many_judged(1_000, 5, matters=False),
}


def misses(make: Make, n: int, draws: int = DRAWS) -> float:
    """How often the interval of the difference does not hold the truth, in percent."""
    rng = np.random.default_rng(n)
    n_missed = 0
    for _ in range(draws):
        drawn = make(rng, n)
        labels = None if drawn.labels is None else [drawn.labels]
        interval = resample("ab", [[drawn.first, drawn.second]], labels).difference("a", "b")
        n_missed += not interval.low <= drawn.truth <= interval.high
    return 100 * n_missed / draws


def enough(make: Make, n: int, draws: int = DRAWS) -> float:
    """How often the second one is called good enough, in percent."""
    rng = np.random.default_rng(n)
    n_called = 0
    for _ in range(draws):
        drawn = make(rng, n)
        shares = resample("ab", [[drawn.first, drawn.second]]).near_shares("ab", MARGIN / 100)
        n_called += shares["b"] >= ENOUGH_SHARE
    return 100 * n_called / draws


def behind(n_candidates: int, n: int, draws: int = DRAWS) -> float:
    """How often one of several equal candidates is called behind, in percent of all that are not the highest."""
    rng = np.random.default_rng(n)
    n_called = 0
    names = [str(number) for number in range(n_candidates)]
    for _ in range(draws):
        easy = np.clip(rng.beta(0.6, 0.4, n), 0.05, 0.98)
        samples = resample(names, [_ndcg(rng.geometric(easy, size=(n_candidates, n)))])
        n_called += sum(samples.to_best(name, names).high < 0 for name in names)
    return 100 * n_called / draws / (n_candidates - 1)


def meetings(scores: pd.DataFrame, n: int) -> Iterator[tuple[str, float]]:
    """For each pair of candidates how often the interval of whole meetings misses the difference on all, in percent."""
    by_meeting = [part[list(BM25)].to_numpy() for _, part in scores.groupby("meeting")]
    truth = scores[list(BM25)].mean()
    rng = np.random.default_rng(n)
    n_missed = dict.fromkeys(combinations(BM25, 2), 0)
    for _ in range(MEETING_DRAWS):
        drawn = rng.choice(len(by_meeting), n, replace=False)
        labels = [[meeting] for meeting in drawn for _ in by_meeting[meeting]]
        rows = np.concatenate([by_meeting[meeting] for meeting in drawn])
        samples = resample(BM25, [rows.T], [labels])
        for first, second in n_missed:
            interval = samples.difference(first, second)
            n_missed[first, second] += not interval.low <= truth[second] - truth[first] <= interval.high
    for (first, second), missed in n_missed.items():
        yield f"{first} against {second}", 100 * missed / MEETING_DRAWS


def scores_of(folder: Path) -> pd.DataFrame:
    """The score of each query of QMSum by each BM25, and its meeting."""
    sources = [next(folder.glob(f"{kind}.*")) for kind in ("corpus", "queries", "qrels")]
    (split,) = splits_of(files_task(*sources))
    columns = {}
    for name in BM25:
        found = evaluate(make_bm25(Method.parse(name)), split)
        columns[name] = found.set_index("query")["score"]
    scores = pd.DataFrame(columns)
    scores["meeting"] = [min(split.judged[query]) for query in scores.index]
    return scores


def kept() -> pd.DataFrame:
    """The cells that are finished: table, row, n and percent."""
    if RESULTS.exists():
        return pd.read_csv(RESULTS)
    return pd.DataFrame(columns=["table", "row", "n", "percent"])


def keep(title: str, n: int, found: Iterable[tuple[str, float]]) -> None:
    """Put cells into the file, and say them."""
    new = pd.DataFrame([(title, row, n, round(percent, 2)) for row, percent in found], columns=kept().columns)
    new.to_csv(RESULTS, mode="a", header=not RESULTS.exists(), index=False)
    print(new.to_string(index=False, header=False), flush=True)


def simulate(folder: Path) -> None:
    """Run all cells that are not there."""
    tables: dict[str, tuple[dict[str, Make], Sequence[int], Callable[[Make, int], float]]] = {
        "independent": (INDEPENDENT, SIZES, misses),
        "whole documents": ({"12 queries each": whole_documents}, (8, 15, 30), misses),
        "many judged": (JUDGED, (60, 200), misses),
        "enough": (TWO_POINTS, SIZES, enough),
    }
    known = set(kept()[["table", "row", "n"]].itertuples(index=False, name=None))
    for title, (kinds, sizes, measured) in tables.items():
        for n, (row, make) in product(sizes, kinds.items()):
            if (title, row, n) not in known:
                keep(title, n, [(row, measured(make, n))])
    for n_candidates, n in product((2, 15), (25, 100)):
        row = f"{n_candidates} equal candidates"
        if ("behind", row, n) not in known:
            keep("behind", n, [(row, behind(n_candidates, n, DRAWS // 2))])
    missing = [n for n in MEETINGS if n not in {cell[2] for cell in known if cell[0] == "meetings"}]
    if missing:
        scores = scores_of(folder)
        for n in missing:
            keep("meetings", n, meetings(scores, n))


def write() -> None:
    """Write the tables of the page."""
    cells = kept()
    for title in ("independent", "whole documents", "many judged", "enough", "behind"):
        own = cells[cells["table"] == title]
        wide = own.pivot(index="row", columns="n", values="percent").loc[own["row"].unique()]
        write_part(PAGE, title, _table(wide, "%"))
    of_pairs = cells[cells["table"] == "meetings"].groupby("n")["percent"].agg(["max", "median", "min"])
    of_pairs.columns = ["highest of 28 pairs", "median", "lowest"]
    write_part(PAGE, "meetings", _table(of_pairs, "meetings"))


def _table(cells: pd.DataFrame, what: str) -> str:
    rows = cells.map("{:.1f}".format).rename_axis(index=what, columns=None).reset_index()
    return str(rows.to_markdown(index=False, disable_numparse=True))


def main() -> None:
    """Simulate what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    resampling.N_RESAMPLES = N_RESAMPLES
    simulate(folder)
    write()


if __name__ == "__main__":
    main()
