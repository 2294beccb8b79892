"""How fast a model encodes on this machine, and how fast matrices are multiplied."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from mteb_longembed.encoders.text.drawing import CHARS_PER_TOKEN
from mteb_longembed.encoders.text.inputs import document_prompt

#: The text before the clock starts, in trained lengths.
_WARM = 1.25
#: Rows of the matrices that are multiplied, and how often. The best time counts.
_ROWS = {"cpu": 32}
_ROWS_ELSEWHERE = 8192
_ROUNDS = 3


def duration(seconds: float) -> str:
    """A time in words: seconds, and from two minutes on minutes.

    >>> duration(119), duration(600)
    ('119 seconds', '10 minutes')
    """
    if seconds < 120:
        return f"{seconds:,.0f} seconds"
    return f"{seconds / 60:,.0f} minutes"


def measure(model: Any, texts: Sequence[str]) -> tuple[float, int]:
    """The tokens of documents that a model encodes in a second, and the bytes of one vector.

    The time to tokenise is not in it: a comparison tokenises each text once for all candidates of a base. The first
    call of a new model makes things that are made only once, so a text that is a little longer than the trained length
    runs before the clock starts. The store of the model is not used.
    """
    rows = model.trunk.token_ids(texts, document_prompt(model))
    if rows is None:
        n_tokens = sum(len(text.split()) for text in texts)
    else:
        n_tokens = sum(map(len, rows))
    n_chars = int(_WARM * CHARS_PER_TOKEN * model.trunk.strategy.trained_len)
    store = model.store
    model.store = None  # embeddings that are stored already would say nothing about speed
    try:
        model.encode_document([max(texts, key=len)[:n_chars]], show_progress_bar=False)
        started = time.perf_counter()
        embeddings = model.encode_document(texts, show_progress_bar=False)
        speed = n_tokens / (time.perf_counter() - started)
    finally:
        model.store = store
    first = embeddings[0]
    if isinstance(first, Tensor):
        first = first.cpu()
    return speed, np.atleast_2d(first)[0].nbytes


def product_rate(width: int, dtype: torch.dtype, device: str = "cpu") -> float:
    """Operations (FLOP) a second in products of matrices of a model's width. It takes less than a second."""
    n_rows = _ROWS.get(torch.device(device).type, _ROWS_ELSEWHERE)
    tokens = torch.ones(n_rows, width, dtype=dtype, device=device)
    weights = torch.ones(width, width, dtype=dtype, device=device)
    known = {"tokens": tokens, "weights": weights}
    timer = Timer("tokens @ weights", globals=known, num_threads=torch.get_num_threads())
    seconds = min(timer.timeit(1).median for _ in range(_ROUNDS))
    return 2 * n_rows * width**2 / seconds
