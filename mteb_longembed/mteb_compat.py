"""Access to mteb's private names, one function for each; `plugin` handles its registries.

`tests/test_private_names.py` lists every private name of mteb, sentence-transformers, transformers and torch that this
package uses, and why.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def bm25_language(code: str) -> tuple[str | None, str | None]:
    """Return bm25s' key of stop words and PyStemmer's algorithm for an ISO 639-3 language, as in mteb's BM25.

    mteb offers the stemmer, but not its name, from which a saved index rebuilds it.
    """
    from mteb.models.model_implementations.bm25 import _ISO3_TO_LANG

    stop_words, stemmer, _ = _ISO3_TO_LANG.get(code, (None, None, None))
    return stop_words, stemmer


def query_batches(rows: Any, **options: Any) -> Iterable[Mapping[str, Any]]:
    """Return queries in batches as mteb passes them to encoders: instructions and conversations as text."""
    from mteb._create_dataloaders import create_dataloader

    return create_dataloader(rows, **options)
