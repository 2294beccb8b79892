"""The cost of a candidate: tokens per second, vectors and bytes per document, and the share of the text it reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mteb_longembed.encoders.engine.batching import estimated_tokens

#: A probe encodes documents until this time is over, in seconds.
_PROBE_SECONDS = 1.0
_PROBE_DOCUMENTS = 16


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate.

    Args:
        tokens_per_second: speed on documents, without stored embeddings; None if nothing is encoded.
        vectors: mean number of vectors for each document, None if there are none.
        bytes: mean bytes of a document's vectors in fp32.
        share_read: the share of the corpus' text that is read, from 0 to 1.
    """

    tokens_per_second: float | None
    vectors: float | None
    bytes: float | None
    share_read: float


def tokens_of(texts: Sequence[str], target_len: int | None) -> int:
    """An estimate of the number of tokens that are read of some texts."""
    longest = sys.maxsize if target_len is None else target_len
    return sum(estimated_tokens(text, longest) for text in texts)


def share_read(texts: Sequence[str], target_len: int | None) -> float:
    """An estimate of the share of some texts that is read."""
    whole = tokens_of(texts, None)
    return tokens_of(texts, target_len) / whole if whole else 1.0


def probe(model: Any, texts: Sequence[str], target_len: int | None) -> Cost:
    """Measure a model on a few documents of middle length.

    Args:
        model: a SentenceTransformer or MultiVectorEncoder; None if nothing is encoded (BM25), or if the model runs
            elsewhere (an API).
        texts: the corpus.
        target_len: how many tokens of a document the model reads.
    """
    read = share_read(texts, target_len)
    if model is None or not texts:
        return Cost(None, None, None, read)
    middle = sorted(texts, key=len)[len(texts) // 2 :][:_PROBE_DOCUMENTS]
    # the first call makes things that are made only once: do not measure it
    model.encode_document(middle[:1], show_progress_bar=False)
    speeds, vectors, started = [], [], time.perf_counter()
    for text in middle:
        before = time.perf_counter()
        (found,) = model.encode_document([text], show_progress_bar=False)
        vectors.append(np.atleast_2d(found.cpu() if hasattr(found, "cpu") else found))
        after = time.perf_counter()
        speeds.append(tokens_of([text], target_len) / (after - before))
        if after - started > _PROBE_SECONDS:
            break
    count = float(np.mean([len(rows) for rows in vectors]))
    # the median: other work on the machine may stop one document for a while
    return Cost(float(np.median(speeds)), count, count * vectors[0].shape[1] * 4, read)
