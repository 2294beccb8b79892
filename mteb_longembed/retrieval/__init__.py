"""Search around an encoder: corpus centring, fusion with BM25, several vectors in an index.

What lives here has mteb's search protocol (`index`, `search`, `mteb_model_meta`) and no `encode`, since mteb scores
whatever has `encode` without asking for the search. It may import `encoders`, `names`, `errors`, mteb and FAISS.
"""
