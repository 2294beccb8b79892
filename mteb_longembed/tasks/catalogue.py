"""All our tasks, in the order of the paper's tables."""

from __future__ import annotations

from mteb_longembed.tasks.narrativeqa import LongEmbedNarrativeQA
from mteb_longembed.tasks.needle import LongEmbedNeedle
from mteb_longembed.tasks.passkey import LongEmbedPasskey
from mteb_longembed.tasks.qmsum import LongEmbedQMSum
from mteb_longembed.tasks.summscreenfd import LongEmbedSummScreenFD
from mteb_longembed.tasks.wikimultihopqa import LongEmbed2WikiMultihopQA

TASKS = (
    LongEmbedPasskey,
    LongEmbedNeedle,
    LongEmbedNarrativeQA,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
    LongEmbed2WikiMultihopQA,
)
