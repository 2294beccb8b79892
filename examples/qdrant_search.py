"""Qdrant in local mode: several vectors a document, compared by MaxSim.

pip install mteb-longembed qdrant-client
"""

from documents import DOCUMENTS, QUESTION
from qdrant_client import QdrantClient, models

import mteb_longembed as longembed

# one vector for each window of 128 tokens
model = longembed.load("mini-ape+pcw:size=128,short=cut,vectors=window")
vectors = model.encode_document(list(DOCUMENTS.values()))

client = QdrantClient(":memory:")
client.create_collection(
    "documents",
    vectors_config=models.VectorParams(
        size=vectors[0].shape[1],
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    ),
)
points = [
    models.PointStruct(id=number, vector=matrix.tolist(), payload={"name": name})
    for number, (name, matrix) in enumerate(zip(DOCUMENTS, vectors, strict=True))
]
client.upsert("documents", points)
hits = client.query_points("documents", query=model.encode_query([QUESTION])[0].tolist(), limit=3).points
RANKING = [hit.payload["name"] for hit in hits]
print(RANKING)
