"""Attention functions on `q`, `k`, `v` tensors: plain, in tiles, and with changed relative positions."""
