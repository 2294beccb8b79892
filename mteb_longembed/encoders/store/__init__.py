"""Finished work on disk: rows by the keys that `engine/keys.py` makes of them."""
