"""All our tasks, in the order of the paper's tables."""

from __future__ import annotations

from mteb_longembed.tasks.generated.needle import LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.real.published import (
    LongEmbed2WikiMultihopQA,
    LongEmbedNarrativeQA,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
)

TASKS = (
    LongEmbedPasskey,
    LongEmbedNeedle,
    LongEmbedNarrativeQA,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
    LongEmbed2WikiMultihopQA,
)
