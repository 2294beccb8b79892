"""All our tasks."""

from mteb_longembed.tasks.generated.needle import LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.real.paper_tasks import REAL_TASKS

#: In the order of the paper's tables.
TASKS = (LongEmbedPasskey, LongEmbedNeedle, *REAL_TASKS)
