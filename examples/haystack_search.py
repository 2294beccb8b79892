"""Haystack: an extended model in its sentence-transformers embedders.

pip install mteb-longembed haystack-ai sentence-transformers-haystack
"""

import tempfile

from documents import DOCUMENTS, QUESTION
from haystack import Document
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.components.embedders.sentence_transformers import (
    SentenceTransformersDocumentEmbedder,
    SentenceTransformersTextEmbedder,
)

import mteb_longembed as longembed

folder = tempfile.mkdtemp()
longembed.load("mini-rope+ntk@4k").save_pretrained(folder)
options = {"model": folder, "trust_remote_code": True, "progress_bar": False}

reader = SentenceTransformersDocumentEmbedder(**options, encode_kwargs={"prompt_name": "document"})
reader.warm_up()
documents = [Document(content=text, meta={"name": name}) for name, text in DOCUMENTS.items()]
store = InMemoryDocumentStore()
store.write_documents(reader.run(documents)["documents"])

asker = SentenceTransformersTextEmbedder(**options, encode_kwargs={"prompt_name": "query"})
asker.warm_up()
hits = InMemoryEmbeddingRetriever(store).run(asker.run(QUESTION)["embedding"], top_k=3)
RANKING = [hit.meta["name"] for hit in hits["documents"]]
print(RANKING)
