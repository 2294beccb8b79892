"""All our tasks."""

from mteb_longembed.tasks.generated.needle import LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.real.nano import NANO_TASKS
from mteb_longembed.tasks.real.paper_tasks import REAL_TASKS

#: The benchmark, in the order of the paper's tables.
LONGEMBED = (LongEmbedPasskey, LongEmbedNeedle, *REAL_TASKS)
TASKS = (*LONGEMBED, *NANO_TASKS)
