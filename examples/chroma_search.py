"""Chroma in memory: one vector per document.

pip install mteb-longembed chromadb
"""

import chromadb
from documents import DOCUMENTS, QUESTION

import mteb_longembed as longembed

model = longembed.load("mini-rope+ntk")
collection = chromadb.EphemeralClient().create_collection(
    "documents", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
)
# Chroma's own wrapper of sentence-transformers calls `encode`, which adds no prompt: give it the vectors instead
texts = list(DOCUMENTS.values())
collection.add(ids=list(DOCUMENTS), embeddings=model.encode_document(texts), documents=texts)
hits = collection.query(query_embeddings=model.encode_query([QUESTION]), n_results=3)
RANKING = hits["ids"][0]
print(RANKING)
