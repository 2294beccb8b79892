"""LanceDB in a folder: several vectors a document, compared by MaxSim; and one vector a document.

pip install mteb-longembed lancedb
"""

import lancedb
import pyarrow
from documents import DOCUMENTS, QUESTION

import mteb_longembed as longembed

# one vector for each window of 128 tokens; `encode_document` and `encode_query` add the model's prompts
model = longembed.load("mini-ape+pcw:size=128,short=cut,vectors=window")
vectors = model.encode_document(list(DOCUMENTS.values()))

vector = pyarrow.list_(pyarrow.float32(), vectors[0].shape[1])
schema = pyarrow.schema([("name", pyarrow.string()), ("vector", pyarrow.list_(vector))])
rows = [{"name": name, "vector": matrix.tolist()} for name, matrix in zip(DOCUMENTS, vectors, strict=True)]
database = lancedb.connect("lance")
table = database.create_table("documents", rows, schema=schema)

question = model.encode_query([QUESTION])[0].numpy()
hits = table.search(question, vector_column_name="vector").distance_type("cosine").limit(3).to_list()
RANKING = [hit["name"] for hit in hits]
print(RANKING)

single = longembed.load("mini-rope+ntk")
singles = single.encode_document(list(DOCUMENTS.values()))
rows = [{"name": name, "vector": row} for name, row in zip(DOCUMENTS, singles, strict=True)]
plain = database.create_table("whole", rows)
hits = plain.search(single.encode_query(QUESTION)).distance_type("cosine").limit(3).to_list()
RANKING_BY_ONE = [hit["name"] for hit in hits]
print(RANKING_BY_ONE)
