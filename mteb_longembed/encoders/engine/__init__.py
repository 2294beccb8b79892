"""Texts -> embeddings, fast and safely: tokenising, batches, memory, progress, finished work kept on disk.

An `Engine` serves any model of ours, whatever class it has. It decides only what is tokenised when and what runs
with what; what happens to a document stands in the modules' `forward`. May import torch, `tokenizers`,
`xxhash`, `strategies` and `errors`; nothing of the models above it.
"""
