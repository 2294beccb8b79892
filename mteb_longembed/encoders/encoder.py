"""mteb's encoder protocol around an extended model."""

from __future__ import annotations

from mteb.models import SentenceTransformerEncoderWrapper


class LongEncoder(SentenceTransformerEncoderWrapper):
    """An extended model as mteb's encoder: its own prompts, its own similarity."""
