"""LangChain: a text splitter in `search` and `compare`. One vector a chunk, a document scores as its best chunk.

pip install mteb-longembed langchain-text-splitters
"""

from documents import DOCUMENTS, QUESTION
from langchain_text_splitters import RecursiveCharacterTextSplitter

import mteb_longembed as longembed

splitter = RecursiveCharacterTextSplitter(chunk_size=300, chunk_overlap=0, add_start_index=True)
searcher = longembed.search("mini-ape", chunker=(splitter, "v1"))
searcher.add(DOCUMENTS, DOCUMENTS.values())
RANKING = [hit.id for hit in searcher.search(QUESTION, k=3)]
