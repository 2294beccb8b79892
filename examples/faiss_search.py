"""FAISS as the index of long documents: a row for each window, the best one counts, and BM25 by passage beside it.

pip install mteb-longembed faiss-cpu
"""

from collections import Counter

import faiss
import numpy as np

import mteb_longembed as longembed

MODEL = "mini-ape"  # or any other, such as sentence-transformers/all-MiniLM-L6-v2
FILLER = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
KEYS = {
    "harbour": ("Ada Brandt", 48213),
    "library": ("Tom Keller", 90577),
    "station": ("Eva Lindholm", 11846),
}
DOCUMENTS = {}
for name, (owner, key) in KEYS.items():
    fact = f"{owner}'s pass key is {key}. Remember it. {key} is the pass key for {owner}. "
    DOCUMENTS[name] = FILLER * 40 + fact + FILLER * 8

model = longembed.load(f"{MODEL}+windows")
windows = longembed.encode_windows(model, DOCUMENTS)  # rows of document, start, end, text and vector
vectors = np.stack([window.vector for window in windows])
index = faiss.IndexFlatIP(vectors.shape[1])  # vectors have length 1, so the product is the cosine
index.add(vectors)

# FAISS knows no terms: this package's BM25 does, with query expansion by the model
lexical = longembed.search(f"{MODEL}+lexical")
lexical.add(DOCUMENTS, DOCUMENTS.values())


def share(scores: dict[str, float]) -> Counter:
    """Scores divided by the highest, so that scores of two kinds can be added."""
    highest = max(scores.values(), default=1)
    return Counter({name: score / highest for name, score in scores.items()})


def search(question: str, k: int = 10) -> list[tuple]:
    """The best documents, each with its best window."""
    query = model.encode_query([question])[0].numpy()
    # more windows than documents, because a document may have several good ones
    scores, found = index.search(query, min(100 * k, len(windows)))
    dense = {}
    best = {}
    for score, row in zip(scores[0].tolist(), found[0], strict=True):
        best.setdefault(windows[row].document, windows[row])
        dense.setdefault(windows[row].document, score)
    terms = {hit.id: hit.score for hit in lexical.search(question, 100 * k)}
    ranked = (share(dense) + share(terms)).most_common()
    return [(name, best[name]) for name, _ in ranked if name in best][:k]


hits = search("What is the pass key for Tom Keller?")
RANKING = [name for name, _ in hits]
CHUNK = hits[0][1].text
for name, window in hits:
    print(name, window.start, window.end)
