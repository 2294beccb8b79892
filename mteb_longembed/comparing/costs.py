"""The cost of a candidate: tokens per second, vectors and bytes per document, and the share of the text it reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mteb_longembed.encoders.engine.batching import CHARS_PER_TOKEN

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


@dataclass(frozen=True)
class Texts:
    """What a comparison keeps of a corpus: not its texts, which the task has already.

    Args:
        chars: the characters of each document.
        middle: a few documents of middle length, for probes.
    """

    chars: list[int]
    middle: list[str]


def texts_of(rows: Any) -> Texts:
    """The lengths of a corpus' documents, title included, and a few of them.

    Args:
        rows: mteb's corpus.
    """
    columns = [name for name in ("title", "text") if name in rows.column_names]

    def join(values: Sequence[str | None]) -> str:
        return " ".join(value or "" for value in values).strip()

    chars = [
        len(join(values))
        for batch in rows.select_columns(columns).iter(batch_size=256)
        for values in zip(*(batch[name] for name in columns), strict=True)
    ]
    places = sorted(range(len(chars)), key=chars.__getitem__)[len(chars) // 2 :][:_PROBE_DOCUMENTS]
    return Texts(chars, [join([rows[place][name] for name in columns]) for place in places])


def tokens_of(chars: Sequence[int], target_len: int | None) -> int:
    """An estimate of the number of tokens that are read of texts with these lengths."""
    longest = sys.maxsize if target_len is None else target_len
    return sum(min(int(n / CHARS_PER_TOKEN) + 2, longest) for n in chars)


def share_read(chars: Sequence[int], target_len: int | None) -> float:
    """An estimate of the share of texts with these lengths that is read."""
    total = tokens_of(chars, None)
    return tokens_of(chars, target_len) / total if total else 1.0


def probe(model: Any, texts: Texts, target_len: int | None) -> Cost:
    """Measure a model on a few documents of middle length.

    Args:
        model: a SentenceTransformer or MultiVectorEncoder; None if nothing is encoded (BM25), or if the model runs
            elsewhere (an API).
        texts: the corpus.
        target_len: how many tokens of a document the model reads.
    """
    read = share_read(texts.chars, target_len)
    if model is None or not texts.chars:
        return Cost(None, None, None, read)
    # the first call makes things that are made only once: do not measure it
    model.encode_document(texts.middle[:1], show_progress_bar=False)
    speeds, vectors, started = [], [], time.perf_counter()
    for text in texts.middle:
        before = time.perf_counter()
        (found,) = model.encode_document([text], show_progress_bar=False)
        vectors.append(np.atleast_2d(found.cpu() if hasattr(found, "cpu") else found))
        after = time.perf_counter()
        speeds.append(tokens_of([len(text)], target_len) / (after - before))
        if after - started > _PROBE_SECONDS:
            break
    count = float(np.mean([len(rows) for rows in vectors]))
    # the median: other work on the machine may stop one document for a while
    return Cost(float(np.median(speeds)), count, count * vectors[0].shape[1] * 4, read)
