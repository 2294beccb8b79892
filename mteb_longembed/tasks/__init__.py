"""The six tasks of LongEmbed for mteb."""

# This import must come first. When mteb is imported, the plugin registers `registry.TASKS` with it. If one of the task
# modules below imported mteb first, the plugin would find that module half loaded.
import mteb  # noqa: F401

from .generated.needle import LongEmbedNeedle
from .generated.passkey import LongEmbedPasskey
from .real.paper_tasks import (
    LongEmbed2WikiMultihopQA,
    LongEmbedNarrativeQA,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
)
from .registry import TASKS

__all__ = [
    "TASKS",
    "LongEmbed2WikiMultihopQA",
    "LongEmbedNarrativeQA",
    "LongEmbedNeedle",
    "LongEmbedPasskey",
    "LongEmbedQMSum",
    "LongEmbedSummScreenFD",
]
