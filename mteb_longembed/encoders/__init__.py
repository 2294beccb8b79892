"""Context-extension strategies, the model families they act on, and the encoders made of both."""

from __future__ import annotations

#: Version of our algorithms: part of every revision, so that changed algorithms never mix with old results.
ALGORITHM = "le2"
