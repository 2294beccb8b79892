"""How many tokens a batch may hold on an accelerator, from the free memory and one measured batch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .running import is_out_of_memory

#: The share of the free memory that a batch may take. The rest is for fragments, vectors and other processes.
_SHARE = 0.6
#: Tokens of the measured batch, and the largest number of tokens of a document in it.
_PROBE, _PROBE_DOCUMENT = 8192, 4096
#: With fewer tokens an accelerator is never busy, and with more it is not faster.
FEWEST, MOST = 4096, 1 << 18


def tokens_that_fit(bytes_a_token: float, free: int) -> int:
    """Tokens of a batch. It is a power of two, so that two runs on one machine make the same batches.

    Args:
        bytes_a_token: bytes that a forward pass takes for each token.
        free: free bytes.

    Example:
        >>> tokens_that_fit(bytes_a_token=100_000, free=20_000_000_000)
        65536
        >>> tokens_that_fit(bytes_a_token=100_000, free=1_000_000)
        4096
    """
    fitting = int(_SHARE * free / max(bytes_a_token, 1.0))
    return min(max(1 << max(fitting.bit_length() - 1, 0), FEWEST), MOST)


def measured_tokens(run: Callable[[int, int], object], longest: int, device: torch.device) -> int:
    """Tokens of a batch on a CUDA device. One forward pass measures the memory for each token.

    Args:
        run: encodes a number of documents with a number of tokens each, and keeps nothing.
        longest: the longest input in tokens.
        device: where the model is.
    """
    n = min(longest, _PROBE_DOCUMENT)
    count = max(_PROBE // n, 1)
    try:
        run(1, min(n, 64))  # the first run makes workspaces and kernels, which are not measured
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run(count, n)
        peak = torch.cuda.max_memory_allocated(device)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        torch.cuda.empty_cache()
        return FEWEST
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return tokens_that_fit((peak - before) / (count * n), torch.cuda.mem_get_info(device)[0] + kept)
