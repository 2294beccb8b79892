"""What the modules of a model pass on: names beside those of sentence-transformers, and the way to another device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

#: What a module gets and returns, as in sentence-transformers: tensors and settings by their names.
Features = dict[str, Any]
#: The token ids of one text, int32.
Ids = np.ndarray

#: Features with one value for each token. Windows cut them, and padding fills them with zeros.
TOKEN_FEATURES = ("input_ids", "attention_mask", "token_type_ids")
#: The number of tokens of each text, as a tuple, so that a forward pass need not wait for the device to count them.
DOCUMENT_LENGTHS = "document_lengths"
#: `[b]` leading tokens of each text that are special or part of the prompt, and the number of special ones at its end.
WINDOW_PREFIX = "window_prefix"
SPECIAL_SUFFIX = "special_suffix"
#: Windows of each text `[b]`, the index of each window token in its text `[w, size]`, both on the host.
WINDOW_COUNTS = "window_counts"
WINDOW_TOKENS = "window_tokens"
#: The features of the texts that were cut.
DOCUMENT_FEATURES = "document_features"
#: `[b, n]` how much each token counts in a mean, with corpus weights.
TOKEN_WEIGHTS = "token_weights"
#: What the siblings of a model make of the same pass: for each sibling one array a text.
SIBLINGS = "siblings"
#: Vectors of each text `[b]`, on the host.
VECTOR_COUNTS = "vector_counts"


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device of a tensor on the host. On CUDA it comes from pinned memory, so nothing waits for it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
