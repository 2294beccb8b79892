"""LanceDB as the index of long documents: a row for each window, full text beside the vectors, filters, updates.

Full text is LanceDB's own, in windows and in whole documents. That finds about as much as BM25 by passage.

pip install mteb-longembed lancedb
"""

from collections import Counter

import lancedb
import numpy as np
from lancedb.index import FTS

import mteb_longembed as longembed

MODEL = "mini-ape"  # or any other, such as sentence-transformers/all-MiniLM-L6-v2
FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
KEYS = {
    "harbour": ("Ada Brandt", 48213),
    "library": ("Tom Keller", 90577),
    "station": ("Eva Lindholm", 11846),
}
YEARS = {"harbour": 1987, "library": 2014, "station": 1996}
DOCUMENTS = {}
for name, (owner, key) in KEYS.items():
    fact = f"{owner}'s pass key is {key}. Remember it. {key} is the pass key for {owner}. "
    DOCUMENTS[name] = FILLER * 40 + fact + FILLER * 8

model = longembed.load(f"{MODEL}+windows")


def windows_of(documents: dict[str, str]) -> list[dict]:
    """A row for each window: document, start, end, text, vector; and what filters need."""
    windows = longembed.encode_windows(model, documents)
    return [{**window._asdict(), "year": YEARS[window.document]} for window in windows]


database = lancedb.connect("lance")
windows = database.create_table("windows", windows_of(DOCUMENTS))
whole = [{"document": name, "text": text, "year": YEARS[name]} for name, text in DOCUMENTS.items()]
documents = database.create_table("documents", whole)
for table in (windows, documents):
    # by default terms of 40 letters and more, such as hashes, are never found
    table.create_index("text", config=FTS(max_token_length=None))
# from about 20,000 windows on: windows.create_index("vector", config=lancedb.index.IvfPq(distance_type="cosine"))


def share(scores: dict[str, float]) -> Counter:
    """Scores divided by the highest, so that scores of two kinds can be added."""
    highest = max(scores.values(), default=1)
    return Counter({name: score / highest for name, score in scores.items()})


def best_rows(query, where: str | None, limit: int) -> dict[str, dict]:
    """The best row of each document, perhaps only of rows that a filter lets through."""
    if where is not None:
        query = query.where(where, prefilter=True)
    best = {}
    for row in query.limit(limit).to_list():
        best.setdefault(row["document"], row)
    return best


def search(question: str, where: str | None = None, k: int = 10) -> list[dict]:
    """The best window of each of the best documents."""
    query: np.ndarray = model.encode_query([question])[0][0].numpy()
    # more rows than documents, because a document may have several good windows
    near = best_rows(windows.search(query).distance_type("cosine"), where, 100 * k)
    in_windows = best_rows(windows.search(question, query_type="fts"), where, 100 * k)
    in_documents = best_rows(documents.search(question, query_type="fts"), where, 100 * k)
    dense = {name: 1 - row["_distance"] for name, row in near.items()}
    terms = share({name: row["_score"] for name, row in in_windows.items()})
    terms += share({name: row["_score"] for name, row in in_documents.items()})
    best = {**in_windows, **near}
    ranked = (share(dense) + share(terms)).most_common()
    return [best[name] for name, _ in ranked if name in best][:k]


def update(name: str, text: str) -> None:
    """Replace a document."""
    windows.delete(f"document = '{name}'")
    windows.add(windows_of({name: text}))
    documents.update(f"document = '{name}'", {"text": text})
    for table in (windows, documents):
        table.optimize()  # until then terms count as before


hits = search("What is the pass key for Tom Keller?")
RANKING = [hit["document"] for hit in hits]
CHUNK = hits[0]["text"]
for hit in hits:
    print(hit["document"], hit["start"], hit["end"])

OLD = [hit["document"] for hit in search("What is the pass key for Tom Keller?", "year < 2000")]
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?")[0]["document"]
print(OLD, UPDATED)
