"""What an index takes on disk at each precision of its vectors, and what that changes (experiments/speed.md).

    python -m experiments.precision MODEL DOCUMENTS QUERIES QRELS

DOCUMENTS, QUERIES and QRELS are what `mteb-longembed compare` reads, such as the manual pages of manual_pages.md. With
the embedding cache, documents are encoded once.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import mteb_longembed as longembed
from mteb_longembed.data.check import read_documents, read_judgements, read_queries
from mteb_longembed.values import Precision

PRESETS = ("late", "hybrid")
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "4bit")


def ndcg(ranking: list[str], grades: dict[str, int]) -> float:
    """Return nDCG@10 of a ranking."""
    discounts = 1 / np.log2(np.arange(2, 12))
    gains = np.array([grades.get(key, 0) for key in ranking] + [0] * 10)[:10]
    ideal = np.array([*sorted(grades.values(), reverse=True), *[0] * 10])[:10]
    return float(gains @ discounts / (ideal @ discounts))


def main(model: str, corpus: str, queries: str, qrels: str) -> None:
    """Print a row for each preset and precision."""
    documents = read_documents(corpus)
    asked = read_queries(queries)
    grades = read_judgements(qrels, asked, documents)
    n_characters = sum(map(len, documents.values()))
    print(f"{len(documents)} documents, {n_characters:,} characters")
    print("| method | precision | size / text | nDCG@10 | same best ten |\n|---|---|---:|---:|---:|")
    for preset in PRESETS:
        exact: list[list[str]] = []
        for precision in PRECISIONS:
            searcher = longembed.search(f"{model}+{preset}", device="cpu", precision=precision)
            searcher.add(documents.keys(), documents.values())
            with tempfile.TemporaryDirectory() as folder:
                searcher.save(folder)
                files = [path for path in Path(folder).rglob("*") if path.is_file()]
                size = sum(path.stat().st_size for path in files) / n_characters
                found = searcher.search(list(asked.values()), 10)
            rankings = [[hit.id for hit in hits] for hits in found]
            exact = exact or rankings
            same = np.mean(
                [len({*one} & {*two}) / len(one) for one, two in zip(exact, rankings, strict=True)]
            )
            scores = [
                ndcg(ranking, grades[key])
                for key, ranking in zip(asked, rankings, strict=True)
                if key in grades
            ]
            score = 100 * np.mean(scores)
            print(f"| `{preset}` | {precision} | {size:.1f} | {score:.1f} | {same:.3f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
