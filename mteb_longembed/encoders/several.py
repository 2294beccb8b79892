"""The path that folders saved by versions 0.1 and 0.2 name in `modules.json`: it stays, or they no longer load."""

from .span_pooling import RaggedVectors, SpanPooling

__all__ = ["RaggedVectors", "SpanPooling"]
