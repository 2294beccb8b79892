"""Finished work on disk: the key of everything that determines a document's numbers, and the rows under that key.

May import torch, transformers, `xxhash`, `strategies` (the version of the numbers) and `errors`; nothing of the engine,
which writes and reads the rows.
"""
