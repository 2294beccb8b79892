"""How often are `compare`'s words false, and how long do they take? Writes experiments/verdicts.md.

    python -m experiments.verdicts

Candidates are simulated: two equal ones, and two of which one is truly two points behind.
"""

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.measuring import table, write_part
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.compare import Comparison
from mteb_longembed.comparing.notes import findings
from mteb_longembed.comparing.page import as_text, tables, write_all
from mteb_longembed.comparing.summary import (
    ENOUGH_SHARE,
    MARGIN,
    WINNING_SHARE,
    by_split,
    expected,
    summarise,
)
from mteb_longembed.comparing.verdict import Setting, advise
from mteb_longembed.statistics import resampling
from mteb_longembed.statistics.resampling import resample

PAGE = Path("experiments/verdicts.md")
DRAWS = 1_000
#: Fewer than in a comparison, so that the simulations take minutes.
N_RESAMPLES = 2_000
SIZES = (8, 12, 25, 50, 100, 200)

Pair = tuple[np.ndarray, np.ndarray]


def like_ndcg(rng: np.random.Generator, n: int) -> Pair:
    """Two equal candidates: each query has a difficulty, and each draws a rank of its one relevant document."""
    easy = np.clip(rng.beta(0.6, 0.4, n), 0.05, 0.98)
    ranks = rng.geometric(easy, size=(2, n))
    first, second = np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)
    return first, second


def right_or_wrong(rng: np.random.Generator, n: int, behind: float = 0.0) -> Pair:
    """Two candidates that are right on 80 % of the queries, each on its own."""
    return (rng.random(n) < 0.8).astype(float), (rng.random(n) < 0.8 - behind).astype(float)


def few_fail(rng: np.random.Generator, n: int) -> Pair:
    """The second one is wrong on 2 % of the queries, the first one never."""
    return np.ones(n), (rng.random(n) >= MARGIN / 100).astype(float)


def a_little_everywhere(rng: np.random.Generator, n: int) -> Pair:
    """The second one has about two points less on each query."""
    first = 0.4 + 0.2 * rng.random(n)
    return first, first + rng.normal(-MARGIN / 100, 0.05, n)


def two_points_right_or_wrong(rng: np.random.Generator, n: int) -> Pair:
    """The same as `right_or_wrong`, with two points between them."""
    return right_or_wrong(rng, n, MARGIN / 100)


def rates(kinds: dict[str, Callable[..., Pair]], is_false: Callable[..., bool]) -> Iterator[list[object]]:
    """A row for each kind: how often a word is false, in percent, for each number of queries."""
    for title, make in kinds.items():
        row: list[object] = [title]
        for n in SIZES:
            rng = np.random.default_rng(n)
            n_false = sum(is_false(resample("ab", [make(rng, n)])) for _ in range(DRAWS))
            row.append(f"{100 * n_false / DRAWS:.1f}")
        yield row


def end_of_a_comparison(n_queries: int, n_candidates: int) -> tuple[float, float]:
    """Seconds and GB of all that follows the run: resamples, tables, page, files."""
    rng = np.random.default_rng(0)
    easy = rng.random(n_queries)
    pool = [Candidate(f"mine+gp@{number}", "mine", "strategy") for number in range(n_candidates)]
    frames = []
    for candidate in pool:
        scores = np.clip(easy + rng.normal(0, 0.2, n_queries), 0, 1)
        frame = pd.DataFrame({"query": [f"q{number}" for number in range(n_queries)], "score": scores})
        frames.append(frame.assign(candidate=candidate.id, task="A", split="test", is_tied=False))
    scores = pd.concat(frames)
    scores["R@100"] = scores["score"] ** 0.5
    began = time.perf_counter()
    summary = summarise(scores, pool, {})
    setting = Setting(n_queries=n_queries)
    comparison = Comparison(
        scores=scores,
        summary=summary,
        by_split=by_split(scores),
        advice=advise(summary, setting),
        notes=findings(setting, expected(scores, list(summary.index))),
        tasks=["A"],
        metrics=["nDCG@10", "R@100"],
        n_queries=n_queries,
        n_documents=1,
        synthetic_queries=False,
        identity="0" * 8,
        written="",
    )
    for one in tables(comparison):
        as_text(one, 120)
    with tempfile.TemporaryDirectory() as folder:
        write_all(comparison, Path(folder), "")
    seconds = time.perf_counter() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure all, and write the page."""
    timed = []
    for n_queries in (1_000, 10_000):
        seconds, memory = end_of_a_comparison(n_queries, 25)
        timed.append([f"{n_queries:,}", seconds, memory])
    write_part(PAGE, "time", table(["queries, 25 candidates", "seconds", "GB, the process"], timed))
    resampling.N_RESAMPLES = N_RESAMPLES
    head = ["candidates", *map(str, SIZES)]
    equal = {"ranks (nDCG@10)": like_ndcg, "right or wrong": right_or_wrong}

    def has_winner(samples: object) -> bool:
        return max(samples.best_shares("ab").values()) >= WINNING_SHARE  # type: ignore[attr-defined]

    write_part(PAGE, "winner", table(head, list(rates(equal, has_winner))))
    behind = {
        "a little on each query": a_little_everywhere,
        "right or wrong": two_points_right_or_wrong,
        "wrong on 2 % of the queries": few_fail,
    }

    def second_is_enough(samples: object) -> bool:
        return samples.near_shares("ab", MARGIN / 100)["b"] >= ENOUGH_SHARE  # type: ignore[attr-defined]

    write_part(PAGE, "enough", table(head, list(rates(behind, second_is_enough))))


if __name__ == "__main__":
    main()
