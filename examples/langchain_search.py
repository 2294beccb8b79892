"""LangChain: an extended model as embeddings, FAISS as the store, and late chunking.

pip install mteb-longembed langchain-huggingface langchain-community
"""

import tempfile

from documents import DOCUMENTS, QUESTION
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_huggingface import HuggingFaceEmbeddings

import mteb_longembed as longembed
from mteb_longembed.sentences import spans_by_sentences

model, folder = longembed.load("mini-rope+ntk@4k"), tempfile.mkdtemp()
model.save_pretrained(folder)
embeddings = HuggingFaceEmbeddings(
    model_name=folder, model_kwargs={"trust_remote_code": True},
    encode_kwargs={"prompt_name": "document"}, query_encode_kwargs={"prompt_name": "query"},
)  # fmt: skip

# one vector per document
documents = [Document(text, metadata={"name": name}) for name, text in DOCUMENTS.items()]
store = FAISS.from_documents(documents, embeddings)
RANKING = [hit.metadata["name"] for hit in store.similarity_search(QUESTION, k=3)]


# late chunking: the model reads the whole document, and each chunk gets a vector of its own
def late_chunks(texts, size=400):
    spans = [spans_by_sentences(text, max_chars=size) for text in texts]
    for text, bounds, vectors in zip(texts, spans, longembed.encode_spans(model, texts, spans), strict=True):
        yield from ((text[a:b], vector.tolist()) for (a, b), vector in zip(bounds, vectors, strict=True))


chunk_store = FAISS.from_embeddings(list(late_chunks(list(DOCUMENTS.values()))), embeddings)
CHUNK = chunk_store.similarity_search(QUESTION, k=1)[0].page_content
print(RANKING, CHUNK, sep="\n")
