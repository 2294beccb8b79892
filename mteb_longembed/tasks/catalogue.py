"""All our tasks, in the order of the paper's tables."""

from __future__ import annotations

from mteb_longembed.tasks.generated.needle import LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.real.narrativeqa import LongEmbedNarrativeQA
from mteb_longembed.tasks.real.qmsum import LongEmbedQMSum
from mteb_longembed.tasks.real.summscreenfd import LongEmbedSummScreenFD
from mteb_longembed.tasks.real.wikimultihopqa import LongEmbed2WikiMultihopQA

TASKS = (
    LongEmbedPasskey,
    LongEmbedNeedle,
    LongEmbedNarrativeQA,
    LongEmbedQMSum,
    LongEmbedSummScreenFD,
    LongEmbed2WikiMultihopQA,
)
