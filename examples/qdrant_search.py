"""Qdrant in local mode: one point a window, words beside vectors, filters, updates.

pip install mteb-longembed qdrant-client
"""

import uuid
from collections import Counter

import numpy as np
from documents import DOCUMENTS, QUESTION, YEARS
from qdrant_client import QdrantClient, models

import mteb_longembed as longembed
from mteb_longembed.retrieval.vector_scorer import passages_of

# one vector for each window of 128 tokens; tokens count by their rarity in these documents
model = longembed.adapt("mini-ape+pcw@32k:size=128,vectors=window", DOCUMENTS.values(), whiten=0)
vectors_of = {name: model.encode_document([text])[0].numpy() for name, text in DOCUMENTS.items()}
width = next(iter(vectors_of.values())).shape[1]
vocabulary = model.tokenizer


def words(text: str) -> models.SparseVector:
    """How often each token occurs; Qdrant multiplies this by the token's rarity (`modifier=IDF`)."""
    counts = Counter(vocabulary(text, add_special_tokens=False)["input_ids"])
    return models.SparseVector(indices=list(counts), values=[n / (n + 1.5) for n in counts.values()])


def points_of(name: str, text: str, vectors: np.ndarray) -> list[models.PointStruct]:
    """A point for each window of a document."""
    points = []
    for (start, end), vector in zip(passages_of(model, text), vectors, strict=True):
        place = {"document": name, "start": start, "end": end, "year": YEARS[name], "text": text[start:end]}
        both = {"dense": vector.tolist(), "words": words(text[start:end])}
        points.append(models.PointStruct(id=str(uuid.uuid4()), vector=both, payload=place))
    return points


client = QdrantClient(":memory:")
client.create_collection(
    "windows",
    vectors_config={"dense": models.VectorParams(size=width, distance=models.Distance.COSINE)},
    sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
)
for name, text in DOCUMENTS.items():
    client.upsert("windows", points_of(name, text, vectors_of[name]))


def search(question: str, only: models.Filter | None = None, limit: int = 50) -> list[dict]:
    """The best windows by vectors and by words, joined by their scores; each document once, with its best window."""
    dense = model.encode_query([question])[0][0].tolist()
    found = client.query_points(
        "windows",
        prefetch=[
            models.Prefetch(query=dense, using="dense", limit=limit, filter=only),
            models.Prefetch(query=words(question), using="words", limit=limit, filter=only),
        ],
        query=models.FusionQuery(fusion=models.Fusion.DBSF),
        limit=limit,
    )
    best = {}
    for point in found.points:
        best.setdefault(point.payload["document"], point.payload)
    return list(best.values())


def update(name: str, text: str) -> None:
    """Replace the windows of one document."""
    of_document = models.FieldCondition(key="document", match=models.MatchValue(value=name))
    client.delete("windows", models.FilterSelector(filter=models.Filter(must=[of_document])))
    client.upsert("windows", points_of(name, text, model.encode_document([text])[0].numpy()))


hits = search(QUESTION)
RANKING = [hit["document"] for hit in hits]
CHUNK = hits[0]["text"]
print(RANKING, hits[0]["start"], hits[0]["end"])

before_2000 = models.Filter(must=[models.FieldCondition(key="year", range=models.Range(lt=2000))])
OLD = [hit["document"] for hit in search(QUESTION, before_2000)]
update("harbour", DOCUMENTS["harbour"].replace("Ada Brandt", "Mia Sorensen"))
UPDATED = search("What is the pass key for Mia Sorensen?")[0]["document"]
print(OLD, UPDATED)
