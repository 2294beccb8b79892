"""Texts -> embeddings, fast and safely: batches, memory, several processes, progress."""
