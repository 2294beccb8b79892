"""Finished work on disk: rows, and the key of each row, which covers everything that determines its embedding.

This room may import torch, transformers, `xxhash`, `strategies` (for the version of the algorithms) and `errors`. It
may not import the engine, which writes and reads the rows.
"""
