"""Attention functions on `q`, `k`, `v` tensors: sliding windows, and SelfExtend's changed relative positions."""
