"""The collections on which corpus weights are measured, as folders with corpus, queries and qrels.jsonl.

    python -m experiments.measured_collections OUT --qmsum FOLDER --books books.jsonl.gz --proposals peps.jsonl.gz

QMSum's files come from the hub; `books` has a chapter a line, `proposals` a section with its title a line. Passkey,
Needle and its paraphrases are generated.
"""

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mteb
import pandas as pd

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)

Rows = list[dict[str, Any]]
#: Characters of a chapter: about 4,000 tokens.
CHAPTER = 16_000
N_CHAPTERS = 250
N_SECTIONS = 1_500
#: The shortest and the longest proposal about which questions are asked, in characters.
PROPOSAL = (8_000, 100_000)
QUESTIONS = Path(__file__).parent / "proposal_questions.csv"
GENERATED = {
    "passkey": "LongEmbedPasskey-queries100",
    "needle": "LongEmbedNeedle-queries100",
    "paraphrase": "LongEmbedNeedle-paraphrase-queries100",
}
PARTS = {"qmsum": 60, "chapters": 60}
N_PROPOSALS = 240
LENGTHS = (1024, 4096, 8192, 32_768)  # tokens


def read(file: Path) -> Rows:
    """The rows of a JSONL file, perhaps with gzip."""
    return pd.read_json(file, lines=True, dtype=False).to_dict("records")


def write(folder: Path, corpus: Rows, queries: Rows, qrels: Rows) -> None:
    """Write a collection. Each query has one right document."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
        pd.DataFrame(rows).to_json(folder / f"{name}.jsonl", orient="records", lines=True)


def meetings(source: Path, out: Path) -> None:
    """QMSum's meetings and questions."""
    write(out, *(read(next(source.glob(f"{name}.jsonl*"))) for name in ("corpus", "queries", "qrels")))


def chapters(source: Path, out: Path, draw: random.Random) -> None:
    """The beginnings of long chapters; queries are two sentences of each."""
    rows = [row for row in read(source) if len(row["text"]) >= CHAPTER + 1_000]
    draw.shuffle(rows)
    corpus: Rows = []
    queries: Rows = []
    qrels: Rows = []
    for number, row in enumerate(rows[:N_CHAPTERS]):
        document = f"c{number}"
        text = row["text"][:CHAPTER]
        corpus.append({"doc_id": document, "text": text})
        sentences = [part for part in re.split(r"(?<=[.!?])\s+", text) if 60 <= len(part) <= 250]
        for index, sentence in enumerate(draw.sample(sentences, min(2, len(sentences)))):
            queries.append({"qid": f"{document}q{index}", "text": sentence})
            qrels.append({"qid": f"{document}q{index}", "doc_id": document})
    write(out, corpus, queries, qrels)


def sections(source: Path, out: Path, draw: random.Random) -> None:
    """Sections of proposals, most of them short; queries are their titles, each of one section only."""
    rows = [row for row in read(source) if len(row["text"]) >= 300]
    draw.shuffle(rows)
    by_title: dict[str, str] = {}
    for row in rows:
        by_title.setdefault(row["title"], row["text"])
    pairs = list(by_title.items())[:N_SECTIONS]
    corpus = [{"doc_id": f"p{number}", "text": text} for number, (_, text) in enumerate(pairs)]
    queries = [{"qid": f"q{number}", "text": title} for number, (title, _) in enumerate(pairs)]
    qrels = [{"qid": f"q{number}", "doc_id": f"p{number}"} for number in range(len(pairs))]
    write(out, corpus, queries, qrels)


def asked(source: Path, out: Path) -> None:
    """Whole proposals, and questions about a section of one, written by hand in other words than its own."""
    sections: dict[str, Rows] = {}
    for row in read(source):
        sections.setdefault(row["source"], []).append(row)
    corpus: Rows = []
    for name, own in sections.items():
        text = ""
        for row in own:
            text += f"{row['title']}\n{row['text']}\n\n"
        if PROPOSAL[0] <= len(text) <= PROPOSAL[1]:
            corpus.append({"doc_id": name, "text": text})
    questions = pd.read_csv(QUESTIONS, dtype=str).to_dict("records")
    kept = {row["doc_id"] for row in corpus}
    queries: Rows = []
    qrels: Rows = []
    for number, row in enumerate(questions):
        if row["source"] not in kept:
            continue
        query = f"q{number}"
        queries.append({"qid": query, "text": row["question"]})
        qrels.append({"qid": query, "doc_id": row["source"]})
    write(out, corpus, queries, qrels)


def generated(short: str, lengths: Sequence[int], out: Path) -> None:
    """A generated task at several lengths."""
    for length in lengths:
        split = f"test_{length}"
        task = mteb.get_task(GENERATED[short], eval_splits=[split])
        task.load_data()
        data = task.dataset["default"][split]
        corpus = [{"doc_id": row["id"], "text": row["text"].strip()} for row in data["corpus"]]
        queries = [{"qid": row["id"], "text": row["text"]} for row in data["queries"]]
        qrels = []
        for query, judged in data["relevant_docs"].items():
            qrels += [{"qid": query, "doc_id": document} for document, score in judged.items() if score > 0]
        write(out / f"{short}_{length}", corpus, queries, qrels)


def part(collection: Path, n: int, draw: random.Random | None = None) -> None:
    """Some documents of a collection and their queries, in a folder of their own: for slow models.

    They are the first `n`; with `draw`, all judged ones and others in a random order, `n` in all.
    """
    corpus, queries, qrels = (read(collection / f"{name}.jsonl") for name in ("corpus", "queries", "qrels"))
    chosen = [row["doc_id"] for row in corpus]
    if draw is not None:
        judged = {row["doc_id"] for row in qrels}
        others = [name for name in chosen if name not in judged]
        draw.shuffle(others)
        chosen = [*judged, *others]
    kept = set(chosen[:n])
    corpus = [row for row in corpus if row["doc_id"] in kept]
    qrels = [row for row in qrels if row["doc_id"] in kept]
    asked = {row["qid"] for row in qrels}
    queries = [row for row in queries if row["qid"] in asked]
    write(collection.with_name(f"{collection.name}_{n}"), corpus, queries, qrels)


def main() -> None:
    """Write all collections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--qmsum", type=Path, required=True)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--proposals", type=Path, required=True)
    args = parser.parse_args()
    meetings(args.qmsum, args.out / "qmsum")
    draw = random.Random(0)
    chapters(args.books, args.out / "chapters", draw)
    sections(args.proposals, args.out / "proposals", draw)
    asked(args.proposals, args.out / "questions")
    for name, n in PARTS.items():
        part(args.out / name, n)
    part(args.out / "questions", N_PROPOSALS, random.Random(0))
    for short in GENERATED:
        generated(short, LENGTHS if short != "paraphrase" else LENGTHS[:3], args.out)


if __name__ == "__main__":
    main()
