"""Texts -> embeddings, fast and safely: tokenising, batches, memory, progress."""
