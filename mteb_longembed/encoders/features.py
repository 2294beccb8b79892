"""What the modules of a model pass on: names beside those of sentence-transformers, and the way to another device."""

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
#: What the trunk gets: `[b, 3]` int64, of each text its tokens, the special and prompt tokens before its content, and
#: the special tokens behind it (both -1 if that is not known). It stays on the host, where a forward pass need not wait
#: for the device to count.
BOUNDS = "token_bounds"


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device of a tensor on the host. On CUDA it comes from pinned memory, so nothing waits for it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
