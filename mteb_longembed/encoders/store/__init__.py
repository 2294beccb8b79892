"""Finished work on disk: rows, and the key of each row, which covers everything that determines its embedding."""
