"""Qdrant as the index of long documents: a point for each window, terms beside the vectors, filters, updates.

Terms are sparse vectors of windows and of whole documents, which Qdrant weights by their IDF.

pip install mteb-longembed qdrant-client
"""

import uuid
from collections import Counter

from qdrant_client import QdrantClient, models

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
client = QdrantClient(":memory:")
with_idf = {"terms": models.SparseVectorParams(modifier=models.Modifier.IDF)}
size = model.encode_query(["a"])[0].shape[1]
dense = {"dense": models.VectorParams(size=size, distance=models.Distance.COSINE)}
client.create_collection("windows", vectors_config=dense, sparse_vectors_config=with_idf)
client.create_collection("documents", vectors_config={}, sparse_vectors_config=with_idf)


def terms(text: str) -> models.SparseVector:
    """How often each token occurs; the tenth time says less than the first."""
    counts = Counter(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    return models.SparseVector(indices=list(counts), values=[n / (n + 1.5) for n in counts.values()])


def point(vectors: dict, payload: dict) -> models.PointStruct:
    """A point with a new id."""
    return models.PointStruct(id=str(uuid.uuid4()), vector=vectors, payload=payload)


def add(documents: dict[str, str]) -> None:
    """Add a point for each document, and one for each of its windows."""
    points = []
    for window in longembed.encode_windows(model, documents):
        place = {"document": window.document, "year": YEARS[window.document]}
        shown = {"start": window.start, "end": window.end, "text": window.text}
        points.append(point({"dense": window.vector, "terms": terms(window.text)}, {**place, **shown}))
    client.upsert("windows", points)
    whole = [
        point({"terms": terms(text)}, {"document": name, "year": YEARS[name]})
        for name, text in documents.items()
    ]
    client.upsert("documents", whole)


def share(scores: dict[str, float]) -> Counter:
    """Scores divided by the highest, so that scores of two kinds can be added."""
    highest = max(scores.values(), default=1)
    return Counter({name: score / highest for name, score in scores.items()})


def best_points(collection: str, query, using: str, only: models.Filter | None, k: int) -> dict:
    """The best point of each document, perhaps only of points that a filter lets through."""
    options = {"group_by": "document", "group_size": 1, "query_filter": only, "limit": k}
    found = client.query_points_groups(collection, query=query, using=using, **options)
    return {group.id: group.hits[0] for group in found.groups}


def search(question: str, only: models.Filter | None = None, k: int = 10) -> list[dict]:
    """The best window of each of the best documents."""
    query = model.encode_query([question])[0][0].tolist()
    near = best_points("windows", query, "dense", only, 10 * k)
    in_windows = best_points("windows", terms(question), "terms", only, 10 * k)
    in_documents = best_points("documents", terms(question), "terms", only, 10 * k)
    of_terms = share({name: hit.score for name, hit in in_windows.items()})
    of_terms += share({name: hit.score for name, hit in in_documents.items()})
    ranked = (share({name: hit.score for name, hit in near.items()}) + share(of_terms)).most_common()
    best = {**in_windows, **near}
    return [best[name].payload for name, _ in ranked if name in best][:k]


def update(name: str, text: str) -> None:
    """Replace a document."""
    own = models.FieldCondition(key="document", match=models.MatchValue(value=name))
    for collection in ("windows", "documents"):
        client.delete(collection, models.FilterSelector(filter=models.Filter(must=[own])))
    add({name: text})


add(DOCUMENTS)
hits = search("What is the pass key for Tom Keller?")
RANKING = [hit["document"] for hit in hits]
CHUNK = hits[0]["text"]
for hit in hits:
    print(hit["document"], hit["start"], hit["end"])

before_2000 = models.Filter(must=[models.FieldCondition(key="year", range=models.Range(lt=2000))])
OLD = [hit["document"] for hit in search("What is the pass key for Tom Keller?", before_2000)]
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?")[0]["document"]
print(OLD, UPDATED)
