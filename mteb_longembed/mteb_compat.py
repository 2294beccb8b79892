"""Access to mteb's private names, one function for each; `plugin` handles its registries.

`tests/test_private_names.py` lists every private name of mteb, sentence-transformers, transformers and torch that this
package uses, and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mteb_longembed.names import Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from mteb.abstasks.task_metadata import TaskMetadata


def query_batches(rows: Dataset, metadata: TaskMetadata) -> Iterable[Settings]:
    """Return queries in batches as mteb passes them to encoders: instructions and conversations as text."""
    from mteb._create_dataloaders import create_dataloader
    from mteb.types import PromptType

    return create_dataloader(rows, task_metadata=metadata, prompt_type=PromptType.query)
