"""LanceDB as the index of long documents: one row a window, corpus weights, full text beside them, filters, updates.

pip install mteb-longembed lancedb
"""

import lancedb
from documents import DOCUMENTS, QUESTION, YEARS
from lancedb.index import FTS, IvfFlat
from lancedb.query import BooleanQuery, MatchQuery, Occur

import mteb_longembed as longembed
from mteb_longembed.retrieval.passages import passages_of

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


table = lancedb.connect("lance").create_table(
    "windows", [r for n, t in DOCUMENTS.items() for r in rows_of(n, t)]
)
# lists: about the root of the number of rows; a search compares with the vectors of the nearest `nprobes` lists
table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))
table.create_index("text", config=FTS())  # LanceDB's own BM25


def best_of_each(query, where: str | None = None, limit: int = 50) -> list[dict]:
    """Each document once, with its best window; perhaps only of rows that a filter lets through."""
    if where:
        query = query.where(where, prefilter=True)
    best = {}
    for row in query.limit(limit).to_list():
        best.setdefault(row["document"], row)
    return list(best.values())


def search(question: str, where: str | None = None) -> list[dict]:
    """The best windows by vectors and by words, joined by their ranks."""
    vector = model.encode_query([question])[0][0].numpy()
    return best_of_each(table.search(query_type="hybrid").vector(vector).text(question).nprobes(20), where)


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
    table.optimize()  # also brings both indexes up to date


hits = search(QUESTION)
RANKING = [hit["document"] for hit in hits]
CHUNK = hits[0]["text"]
print(RANKING, hits[0]["start"], hits[0]["end"])

# words alone: a model reads each different word once, and no document
words = longembed.search("bm25:window=200,neighbours=mini-ape")
words.add(DOCUMENTS, DOCUMENTS.values())
weighted = words.scorer.weighted_words(QUESTION)  # {"keller": {"keller": 1.0, "ada": 0.4, ...}, ...}
RANKING_BY_WORDS = [hit["document"] for hit in best_of_each(table.search(boosted(weighted)))]
print(RANKING_BY_WORDS)

OLD = [hit["document"] for hit in search(QUESTION, "year < 2000")]
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?")[0]["document"]
print(OLD, UPDATED)
