"""Chonkie: a chunker of your own in `search` and `compare`. One vector a chunk, a document scores as its best chunk.

pip install mteb-longembed chonkie
"""

from chonkie import SentenceChunker
from documents import DOCUMENTS, QUESTION

import mteb_longembed as longembed

chunker = SentenceChunker("word", chunk_size=60, chunk_overlap=0)
# results and indexes are found again as long as you say that the version is the same
searcher = longembed.search("mini-ape", chunker=(chunker, "v1"))
searcher.add(DOCUMENTS, DOCUMENTS.values())
RANKING = [hit.id for hit in searcher.search(QUESTION, k=3)]
# which is better on your data, chunks or a longer model?
# longembed.compare("mini-ape", data="my-folder", chunkers={"sentences": (chunker, "v1")})
