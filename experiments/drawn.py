"""Do drawn sentences choose among ways to embed as real queries do? A table of experiments/verdicts.md.

    python -m experiments.drawn measure STATES COLLECTIONS MODELS
    python -m experiments.drawn page

Ways are weights (none, `idf`, `sif`), powers of whitening (0, 0.5, 1) and one vector, best window or all windows.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import kendalltau
from transformers import AutoModel, AutoTokenizer

from experiments.adapt import NAMES, Collection, Vectors
from experiments.measured_collections import read
from experiments.measuring import write_part
from mteb_longembed.encoders.whitening import Whitening
from mteb_longembed.sentences import sentences

RESULTS = Path("experiments/drawn.csv")
PAGE = Path("experiments/verdicts.md")
COLLECTIONS = ("qmsum", "chapters", "proposals")
POWERS = (0.0, 0.5, 1.0)
SENTENCES_A_DOCUMENT = 3
MAX_TOKENS = 256


def drawn_sentences(texts: list[str]) -> Iterator[tuple[int, str]]:
    """Up to three sentences of each document, with its number."""
    draw = random.Random(1)
    for number, text in enumerate(texts):
        usable = [sentence for sentence in sentences(text) if 60 <= len(sentence) <= 250]
        for sentence in draw.sample(usable, min(SENTENCES_A_DOCUMENT, len(usable))):
            yield number, sentence


def states_of(texts: list[str], folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """The token ids and last hidden states of short texts."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    found = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
        with torch.inference_mode():
            states = model(**inputs).last_hidden_state[0]
        found.append((inputs["input_ids"][0].numpy(), states.numpy()))
    return found


def compare(collection: Collection, texts: Path, model: Path) -> dict[str, float]:
    """How the ranking of ways by drawn sentences agrees with that by the collection's own queries."""
    owners, drawn = zip(*drawn_sentences([row["text"] for row in read(texts / "corpus.jsonl")]), strict=True)
    states = states_of(list(drawn), model)
    by_queries: list[float] = []
    by_drawn: list[float] = []
    judged = collection.right
    for pooling, table in collection.tables().items():
        if table is None:
            continue
        vectors = collection.vectors(table)
        of_drawn = np.stack([np.average(rows, axis=0, weights=table[ids]) for ids, rows in states])
        asked = Vectors(of_drawn.astype(np.float32), vectors.windows, vectors.documents)
        for power in POWERS:
            whitening = Whitening.fit(vectors.windows, power) if power else None
            for scores, right, kept in (
                (collection.scores(vectors, whitening), judged, by_queries),
                (collection.scores(asked, whitening), np.array(owners), by_drawn),
            ):
                collection.right = right
                kept += [100 * collection.points(of_way).mean() for of_way in scores.values()]
        print(pooling, flush=True)
    collection.right = judged
    chosen = int(np.argmax(by_drawn))
    return {
        "sentences": len(drawn),
        "tau": kendalltau(by_queries, by_drawn).statistic,
        "loss": max(by_queries) - by_queries[chosen],
        "best": max(by_queries),
        "worst": min(by_queries),
    }


def measure(states: Path, collections: Path, models: Path) -> None:
    """Measure the collections whose states are complete. What the table has is not measured again."""
    rows = pd.read_csv(RESULTS).to_dict("records")
    measured = [(row["model"], row["collection"]) for row in rows]
    for done in sorted(states.glob("*/*/ok")):
        collection = done.parent.name
        model = done.parent.parent.name
        if collection not in COLLECTIONS or (model, collection) in measured:
            continue
        texts = collections / collection
        agreement = compare(Collection.read(done.parent, texts), texts, models / model)
        rows.append({"model": model, "collection": collection, **agreement})
        print(rows[-1], flush=True)
        pd.DataFrame(rows).to_csv(RESULTS, index=False, float_format="%.3f")


def page() -> None:
    """Write the table of the page."""
    rows = pd.read_csv(RESULTS)
    rows["collection"] = rows["collection"].map(NAMES)
    shown = rows.rename(
        columns={
            "sentences": "drawn sentences",
            "tau": "Kendall's tau",
            "loss": "points lost",
            "best": "best score",
        }
    )
    write_part(PAGE, "drawn", shown.drop(columns="worst").to_markdown(index=False, floatfmt=".2f"))


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    for name in ("states", "collections", "models"):
        measuring.add_argument(name, type=Path)
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "measure":
        measure(args.states, args.collections, args.models)
    else:
        page()


if __name__ == "__main__":
    main()
