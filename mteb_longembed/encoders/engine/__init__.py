"""Texts -> embeddings, fast and safely: tokenising, batches, memory, progress.

An `Engine` serves any model of ours, whatever class it has. It decides only what is tokenised when and what runs
with what; what happens to a document stands in the modules' `forward`. May import torch, `tokenizers`, `store`,
`attention` and `errors`; nothing of the models above it.
"""
