"""Devices: copying tensors to them, and how many tokens run on them together."""

import numpy as np
import torch
from torch import Tensor

from mteb_longembed.errors import InputError

#: Tokens that run together on a CPU per torch thread, padding included. More do not make matrix products faster, and
#: their memory goes back to the system after each layer. Other devices need larger batches.
TOKENS_A_THREAD = 1536
TOKENS_ELSEWHERE = 65_536


def check_device(text: str) -> None:
    """Raise InputError unless this machine has a device of this name, such as `cpu`, `cuda:1` or `mps`."""
    try:
        torch.empty(0, device=torch.device(text))
    except (RuntimeError, AssertionError, ImportError, NotImplementedError):
        raise InputError(
            f"--device must be a device of torch, such as cpu, that this machine has, got {text!r}: leave it out for "
            "the best one."
        ) from None


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the host to a device; to CUDA from pinned memory, without blocking."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def on_host(vectors: object) -> np.ndarray:
    """Return vectors of a text, one `[d]` or several, as an array on the host, float32 `[vectors, d]`."""
    return np.atleast_2d(torch.as_tensor(vectors).float().cpu().numpy())


def tokens_at_once(device: torch.device) -> int:
    """Return how many tokens run together on a device. A longer document runs alone, without padding or mask."""
    if device.type == "cpu":
        return TOKENS_A_THREAD * torch.get_num_threads()
    return TOKENS_ELSEWHERE
