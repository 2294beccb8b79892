"""How many tokens a batch may hold on an accelerator: from the memory that is free, measured on one batch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .running import is_out_of_memory

#: What of the free memory a batch may take: the rest is for fragments, vectors and neighbours.
_SHARE = 0.6
#: Tokens of the batch that is measured, and of its documents at most.
_PROBE, _PROBE_DOCUMENT = 8192, 4096
#: Tokens below which an accelerator is never busy, and above which it gains nothing.
FEWEST, MOST = 4096, 1 << 18


def tokens_that_fit(bytes_a_token: float, free: int) -> int:
    """Tokens of a batch: a power of two, so that two runs on one machine plan the same batches.

    Args:
        bytes_a_token: memory that a forward pass takes for each token.
        free: bytes that are free.

    Example:
        >>> tokens_that_fit(bytes_a_token=100_000, free=20_000_000_000)
        65536
        >>> tokens_that_fit(bytes_a_token=100_000, free=1_000_000)
        4096
    """
    fitting = int(_SHARE * free / max(bytes_a_token, 1.0))
    return min(max(1 << max(fitting.bit_length() - 1, 0), FEWEST), MOST)


def measured_tokens(run: Callable[[int, int], object], longest: int, device: torch.device) -> int:
    """Tokens of a batch on a CUDA device, after one forward pass that shows what a token takes.

    Args:
        run: encodes so many documents of so many tokens, and keeps nothing.
        longest: tokens kept of a document at most.
        device: where the model is.
    """
    n = min(longest, _PROBE_DOCUMENT)
    count = max(_PROBE // n, 1)
    try:
        run(1, min(n, 64))  # what is made once: workspaces, kernels
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run(count, n)
        peak = torch.cuda.max_memory_allocated(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        torch.cuda.empty_cache()
        return FEWEST
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return tokens_that_fit((peak - before) / (count * n), torch.cuda.mem_get_info(device)[0] + kept)
