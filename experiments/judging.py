"""How few judged questions choose well, and how fast a page that asks for them is. The tables of judging.md.

    python -m experiments.judging measure FOLDER MODEL COLLECTION
    python -m experiments.judging page
    python -m experiments.judging size BOOKS OUT
    python -m experiments.judging picture JUDGE_HTML

FOLDER is what `mteb-longembed compare MODEL --corpus ... --queries ... --qrels ...` wrote beside its page, after the
same command without `--qrels` had kept the rankings. Of its questions n are drawn 1,000 times; the cautious choice on
them is scored on all other questions, against the best candidate there and against always taking the default. `size`
measures a page of 500 questions about 10,000 pieces of books (`books.jsonl.gz`, a chapter a line) with six made-up
rankings. `picture` draws README's picture.
"""

import argparse
import base64
import json
import random
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import mteb_longembed
from experiments.measuring import write_part
from mteb_longembed.evaluation.resampling import resample
from tests.browser import browser

RESULTS = Path("experiments/judging.csv")
PAGE = Path("experiments/judging.md")
PICTURE = Path("docs/images/judge.png")
SIZES = (5, 10, 20, 30)
N_DRAWS = 1000
#: Characters of a document of the page that is measured.
N_LETTERS = 600
COLUMNS = {
    "model": "model", "collection": "collection", "questions": "judged", "others": "scored",
    "to_default": "gain over the default", "to_default_p10": "its 10th percentile",
    "to_best": "lost to the best", "to_best_p10": "its 10th percentile ",
    "greedy": "gain without caution", "greedy_p10": "its 10th percentile  ", "switched": "switched (%)",
}  # fmt: skip
#: The default, as `default_of` chooses it.
DEFAULT = "+hybrid"


def simulate(scores: pd.DataFrame, labels: dict[str, list[str]], default: str, n: int) -> dict[str, float]:
    """Draw n questions, choose on them and score on the others, in points of nDCG@10.

    Args:
        scores: the score of each question by candidate, from 0 to 1.
        labels: the cluster labels of each question.
        default: the candidate that stays unless another one is better by more than one standard error.
        n: the number of questions.
    """
    rng = np.random.default_rng(n)
    questions = np.array(scores.index)
    rows = []
    for _ in range(N_DRAWS):
        drawn = rng.choice(questions, n, replace=False)
        own = scores.loc[drawn]
        samples = resample(list(own), [own.to_numpy().T], [[labels[key] for key in drawn]])
        ranked = sorted(own, key=lambda name: -samples.means[name])
        better = [name for name in ranked if name != default and samples.is_better(default, name)]
        chosen = better[0] if better else default
        others = 100 * scores.drop(drawn).mean()
        row = {"to_default": others[chosen] - others[default], "to_best": others[chosen] - others.max()}
        rows.append({**row, "greedy": others[ranked[0]] - others[default], "switched": 100.0 * bool(better)})
    table = pd.DataFrame(rows)
    found = table.mean().to_dict()
    for name in ("to_default", "to_best", "greedy"):
        found[f"{name}_p10"] = float(table[name].quantile(0.1))
    return found


def measure(folder: Path, model: str, collection: str) -> None:
    """Simulate a collection, and replace what the table has of it."""
    frame = pd.read_parquet(folder / "scores.parquet")
    rows = json.loads((folder / "compare.json").read_text())["candidates"]
    labels_of = {row["candidate"]: row["label"] for row in rows}
    # with a target perhaps, but without settings
    (default,) = (
        name for name, label in labels_of.items() if re.fullmatch(rf"{re.escape(DEFAULT)}(@\w+)?", label)
    )
    scores = frame.pivot(index="query", columns="candidate", values="score")
    labels = frame.drop_duplicates("query").set_index("query")["clusters"].map(list).to_dict()
    about = {"model": model, "collection": collection}
    new = []
    for n in SIZES:
        if n <= len(scores) - 5:
            found = simulate(scores, labels, default, n)
            new.append({**about, "questions": n, "others": len(scores) - n, **found})
    known = pd.DataFrame(columns=list(COLUMNS))
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["model"] != model) | (known["collection"] != collection)]
    pd.concat([known, pd.DataFrame(new)]).to_csv(RESULTS, index=False, float_format="%.2f")
    print(pd.DataFrame(new).round(2).to_string(), flush=True)


def page() -> None:
    """Write the table of the page."""
    rows = pd.read_csv(RESULTS).sort_values(["model", "collection", "questions"])[list(COLUMNS)]
    numbers = rows.columns.drop(["model", "collection", "questions", "others"])
    rows[numbers] = rows[numbers].map("{:z.1f}".format)
    text = rows.rename(columns=COLUMNS).to_markdown(index=False, disable_numparse=True)
    write_part(PAGE, "judging", text)


def size(books: Path, out: Path) -> None:
    """Measure the bytes of a page and the time until it shows the first question."""
    draw = random.Random(0)
    pieces = []
    for row in pd.read_json(books, lines=True).to_dict("records"):
        text = row["text"]
        pieces += [text[start : start + N_LETTERS] for start in range(0, len(text) - N_LETTERS, N_LETTERS)]
    draw.shuffle(pieces)
    corpus = {f"d{i}": text for i, text in enumerate(pieces[:10_000])}
    queries = {f"q{i}": " ".join(corpus[f"d{i}"].split()[20:32]) for i in range(500)}
    runs = {}
    for name in range(6):
        runs[f"run{name}"] = {}
        for query in queries:
            # each has half of its ten best from 20 documents that all share, and finds the others alone
            shared = [f"d{(int(query[1:]) + 20 * k) % 10_000}" for k in draw.sample(range(20), 5)]
            ids = [*shared, *(f"d{k}" for k in draw.sample(range(10_000), 5))]
            runs[f"run{name}"][query] = {key: 10.0 - rank for rank, key in enumerate(dict.fromkeys(ids))}
    options = {"show": False, "bm25": False, "output_folder": out}
    ranked = mteb_longembed.compare(runs=runs, corpus=corpus, queries=queries, **options)
    path = ranked.judge(out / "judge.html")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser(Path(folder)) as shown:
        started = time.perf_counter()
        shown.open(path)
        shown.wait("document.getElementById('question').textContent")
        seconds = time.perf_counter() - started
        inside = shown.run("performance.now()") / 1000
    n = len(corpus)
    print(
        f"{n:,} documents, {path.stat().st_size:,} bytes, first question after {seconds:.2f} s ({inside:.2f} s)"
    )


def picture(path: Path) -> None:
    """Judge some questions of a page, and keep what it shows."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, browser(Path(folder)) as shown:
        shown.send(
            "Emulation.setDeviceMetricsOverride", width=880, height=760, deviceScaleFactor=1, mobile=False
        )
        shown.open(path)
        shown.wait("document.getElementById('question').textContent")
        for key in "11n1n01n1n1n1n1n01n1n1n1n":
            shown.press(key)
        shown.wait("document.getElementById('verdict').textContent")
        shown.run("new Promise((done) => setTimeout(done, 1000))")
        image = shown.send("Page.captureScreenshot", format="png")["data"]
    PICTURE.write_bytes(base64.b64decode(image))


def main() -> None:
    """Simulate a collection, write the page, measure a page, or draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    simulated = commands.add_parser("measure")
    simulated.add_argument("folder", type=Path)
    simulated.add_argument("model")
    simulated.add_argument("collection")
    commands.add_parser("page")
    sized = commands.add_parser("size")
    sized.add_argument("books", type=Path)
    sized.add_argument("out", type=Path)
    drawn = commands.add_parser("picture")
    drawn.add_argument("page", type=Path)
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.folder, args.model, args.collection)
    elif args.command == "page":
        page()
    elif args.command == "size":
        size(args.books, args.out)
    else:
        picture(args.page)


if __name__ == "__main__":
    main()
