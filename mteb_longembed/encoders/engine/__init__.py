"""Texts -> embeddings, fast and safely: tokenising, batches, memory, progress.

An `Engine` works with every class of our models. It decides only when a text is tokenised and which texts share a
batch. The modules' `forward` decides what happens to a document. This room may not
import the models above it.
"""
