"""LanceDB as the index of long documents: one row a window, corpus weights, full text beside them, filters, updates.

pip install mteb-longembed lancedb
"""

import lancedb
from documents import DOCUMENTS, QUESTION, YEARS

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
table.create_fts_index("text")  # LanceDB's own BM25


def search(question: str, where: str | None = None, limit: int = 50) -> list[dict]:
    """The best windows by vectors and by words, joined by their ranks; each document once, with its best window."""
    query = (
        table.search(query_type="hybrid").vector(model.encode_query([question])[0][0].numpy()).text(question)
    )
    if where:
        query = query.where(where, prefilter=True)
    best = {}
    for row in query.limit(limit).to_list():
        best.setdefault(row["document"], row)
    return list(best.values())


def update(name: str, text: str) -> None:
    """Replace the windows of one document."""
    table.delete(f"document = '{name}'")
    table.add(rows_of(name, text))
    table.optimize()  # also brings the index of words up to date


hits = search(QUESTION)
RANKING = [hit["document"] for hit in hits]
CHUNK = hits[0]["text"]
print(RANKING, hits[0]["start"], hits[0]["end"])

OLD = [hit["document"] for hit in search(QUESTION, "year < 2000")]
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?")[0]["document"]
print(OLD, UPDATED)
