"""Long documents in a FAISS index: one vector a document.

pip install mteb-longembed
"""

import faiss
from documents import DOCUMENTS, QUESTION

import mteb_longembed as longembed

model = longembed.load("mini-rope+ntk@4k")
names = list(DOCUMENTS)
vectors = model.encode_document(list(DOCUMENTS.values()), normalize_embeddings=True)
index = faiss.IndexFlatIP(vectors.shape[1])
index.add(vectors)

query = model.encode_query([QUESTION], normalize_embeddings=True)
scores, rows = index.search(query, 3)
RANKING = [names[row] for row in rows[0]]
print(RANKING, scores[0])
