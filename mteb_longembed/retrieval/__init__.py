"""Search around an encoder: fusion with BM25, several vectors in an index.

The classes here have mteb's search protocol (`index`, `search`, `mteb_model_meta`) and no `encode`. If an object has
`encode`, mteb calls that and ignores `search`. This room may import `encoders`, `tasks`, `names`, `errors`, mteb and
FAISS.
"""
