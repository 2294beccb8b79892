"""The six tasks of LongEmbed for mteb."""

from __future__ import annotations

# First of all: once mteb is imported, the plugin registers `catalogue.TASKS` with it. Were mteb imported by
# one of the task modules below instead, the plugin would meet that module half done.
import mteb  # noqa: F401

from mteb_longembed.tasks.catalogue import (
    TASKS,
    LongEmbed2WikiMultihopQA,
    LongEmbedNarrativeQA,
    LongEmbedNeedle,
    LongEmbedPasskey,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
)

__all__ = [
    "TASKS",
    "LongEmbed2WikiMultihopQA",
    "LongEmbedNarrativeQA",
    "LongEmbedNeedle",
    "LongEmbedPasskey",
    "LongEmbedQMSum",
    "LongEmbedSummScreenFD",
]
