"""Chonkie: chunks of your own, each with a vector of a model that has read the whole document (late chunking).

pip install mteb-longembed chonkie
"""

import numpy as np
from chonkie import SentenceChunker
from documents import DOCUMENTS, QUESTION

import mteb_longembed as longembed

chunker = SentenceChunker("word", chunk_size=60, chunk_overlap=0)
model = longembed.load("mini-ape+pi@4k")
texts = list(DOCUMENTS.values())
spans = [[(chunk.start_index, chunk.end_index) for chunk in chunker(text)] for text in texts]
query = model.encode_query(QUESTION)
# a document scores as its best chunk
scores = [np.max(vectors @ query) for vectors in longembed.encode_spans(model, texts, spans)]
best = np.argsort(scores)[::-1]
RANKING = [list(DOCUMENTS)[index] for index in best[:3]]
# which is better on your data, these chunks or windows? Rankings of your own are compared as a run:
# longembed.compare("mini-ape", data="my-folder", runs={"sentences": {"q1": dict(zip(DOCUMENTS, scores))}})
