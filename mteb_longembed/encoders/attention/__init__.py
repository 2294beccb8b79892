"""Attention functions on `q`, `k`, `v` tensors: plain, in tiles, and with changed relative positions.

This room knows no models and no strategies. It may import only torch.
"""
