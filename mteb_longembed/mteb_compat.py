"""Access to mteb's private names, one function for each; `plugin` handles its registries.

`tests/test_private_names.py` lists every private name of mteb, sentence-transformers, transformers and torch that this
package uses, and why.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def query_batches(rows: Any, **options: Any) -> Iterable[Mapping[str, Any]]:
    """Return queries in batches as mteb passes them to encoders: instructions and conversations as text."""
    from mteb._create_dataloaders import create_dataloader

    return create_dataloader(rows, **options)
