"""LlamaIndex: an extended model as the embedding model of an index.

pip install mteb-longembed llama-index-core llama-index-embeddings-huggingface
"""

import tempfile

from documents import DOCUMENTS, QUESTION
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.embeddings.huggingface import HuggingFaceEmbedding

import mteb_longembed as longembed

model, folder = longembed.load("mini-rope+ntk@4k"), tempfile.mkdtemp()
model.save_pretrained(folder)
embedding = HuggingFaceEmbedding(
    model_name=folder, trust_remote_code=True, device="cpu",
    # LlamaIndex sets its own prompts, so pass the prompts of the model
    query_instruction=model.prompts.get("query"), text_instruction=model.prompts.get("document"),
)  # fmt: skip

# each document is one node and is not split
nodes = [TextNode(text=text, id_=name) for name, text in DOCUMENTS.items()]
index = VectorStoreIndex(nodes, embed_model=embedding)
hits = index.as_retriever(similarity_top_k=3).retrieve(QUESTION)
RANKING = [hit.node.node_id for hit in hits]
print(RANKING)
