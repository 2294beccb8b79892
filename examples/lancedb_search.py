"""LanceDB as the index of long documents: one row a window, corpus weights, full text beside them, filters, updates.

pip install mteb-longembed lancedb
"""

import lancedb
import pandas as pd
from documents import DOCUMENTS, QUESTION, YEARS
from lancedb.index import IvfFlat
from lancedb.query import BooleanQuery, MatchQuery, Occur
from lancedb_shards import WORDS, best_windows, by_words

import mteb_longembed as longembed
from mteb_longembed.retrieval.vector_scorer import passages_of

# one vector for each window of 128 tokens; tokens count by their rarity in these documents
model = longembed.adapt("mini-ape+pcw@32k:size=128,vectors=window", DOCUMENTS.values(), whiten=0)
model.save_pretrained("my-model")  # the weights belong to the index: keep both together


def rows_of(name: str, text: str) -> list[dict]:
    """A row for each window of a document. `encode_document` adds the model's prompt."""
    (vectors,) = model.encode_document([text])
    rows = []
    for (start, end), vector in zip(passages_of(model, text), vectors, strict=True):
        place = {"document": name, "start": start, "end": end, "year": YEARS[name]}
        rows.append({**place, "text": text[start:end], "vector": vector.numpy()})
    return rows


database = lancedb.connect("lance")
table = database.create_table(
    "windows", [row for name in DOCUMENTS for row in rows_of(name, DOCUMENTS[name])]
)
# one list for 256 vectors or more; a search compares with the vectors of the nearest `nprobes` lists
table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))
# words count in windows and in whole documents
whole = [{"document": name, "text": text, "year": YEARS[name]} for name, text in DOCUMENTS.items()]
documents = database.create_table("documents", whole)
for one in (table, documents):
    one.create_index("text", config=WORDS)


def search(question: str, where: str | None = None) -> pd.DataFrame:
    """The best window of each document, by vectors and words."""
    vector = model.encode_query([question])[0][0].numpy()
    return best_windows(table, documents, vector, question, where)


def boosted(words: dict[str, dict[str, float]]) -> BooleanQuery:
    """A query of words with neighbours; LanceDB adds up what matches."""
    parts = []
    for matches in words.values():
        parts += [(Occur.SHOULD, MatchQuery(word, "text", boost=share)) for word, share in matches.items()]
    return BooleanQuery(parts)


def update(name: str, text: str) -> None:
    """Replace the windows of one document."""
    table.delete(f"document = '{name}'")
    table.add(rows_of(name, text))
    documents.update(f"document = '{name}'", {"text": text})
    # until then a new row has an exact distance beside approximate ones, and words count as before
    for one in (table, documents):
        one.optimize()


hits = search(QUESTION)
RANKING = list(hits.index)
CHUNK = hits["text"].iloc[0]
print(hits[["start", "end"]])

# words alone: a model reads each different word once, and no document
words = longembed.search("bm25:window=200,expand=mini-ape")
words.add(DOCUMENTS, DOCUMENTS.values())
weighted = words.scorer.weighted_terms(QUESTION)  # {"what": {"ada": 0.16}, "keller": {"keller": 1.0}, ...}
RANKING_BY_WORDS = list(by_words(table, documents, boosted(weighted))[0].index)
print(RANKING_BY_WORDS)

OLD = list(search(QUESTION, "year < 2000").index)
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?").index[0]
print(OLD, UPDATED)
