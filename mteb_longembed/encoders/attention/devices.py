"""What a device can do: which attention runs on it, and how tensors are copied to it.

`packs` decides between the two paths of a forward pass. If it is true, the documents of a batch are packed one after
another without padding, and `varlen_attn` (FlashAttention by documents) runs. Otherwise batches are padded.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PretrainedConfig

#: Number types that FlashAttention computes in.
_HALF = (torch.float16, torch.bfloat16)
#: The widest head that FlashAttention accepts, and the number that the width must be a multiple of.
_WIDEST_HEAD = 256
_HEAD_STEP = 8


def has_flash(device: torch.device, dtype: torch.dtype, head: int = 64) -> bool:
    """Whether torch's FlashAttention accepts heads of this width (in dimensions) on a device."""
    return (
        device.type == "cuda"
        and torch.backends.cuda.is_flash_attention_available()
        and dtype in _HALF
        and head <= _WIDEST_HEAD
        and head % _HEAD_STEP == 0
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


#: Documents run packed, without padding, where FlashAttention runs.
packs = has_flash


@functools.cache
def varlen_options() -> dict[str, Any]:
    """Settings that only some versions of torch have: one split, so that batches do not matter; no copied keys."""
    from torch.nn.attention.varlen import varlen_attn

    known = set(inspect.signature(varlen_attn).parameters)
    if torch.version.hip:
        known.discard("num_splits")  # torch refuses it on ROCm
    return {name: value for name, value in (("num_splits", 1), ("enable_gqa", True)) if name in known}


def has_efficient(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch's memory-efficient attention runs on a device."""
    return device.type == "cuda" and (
        dtype in (torch.float16, torch.float32)
        or (dtype == torch.bfloat16 and torch.cuda.get_device_capability(device) >= (8, 0))
    )


def head_width(config: PretrainedConfig) -> int:
    """Dimensions of a head, from a transformer's configuration: of the widest one. 64 if it does not say."""
    if getattr(config, "is_heterogeneous", False):  # Gemma 4: the layers differ
        return max(map(head_width, config.per_layer_config))
    heads = getattr(config, "num_attention_heads", None)
    return getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 64)


def why_padded(device: torch.device, dtype: torch.dtype, head: int = 64) -> str | None:
    """Why documents do not run packed, and what helps. None where they do."""
    if packs(device, dtype, head):
        return None
    if device.type != "cuda":
        return "only CUDA and ROCm devices run packed batches"
    if not torch.backends.cuda.is_flash_attention_available():
        return "this torch has no FlashAttention"
    if not packs(device, torch.bfloat16):
        return f"packed batches need capability 8.0, got {'.'.join(map(str, torch.cuda.get_device_capability(device)))}"
    if dtype not in _HALF:
        return (
            "packed batches need half precision: :dtype=bf16 is the faster form here, with numbers of 8 bits"
        )
    return f"packed batches need heads of at most {_WIDEST_HEAD} dimensions, a multiple of {_HEAD_STEP}, got {head}"


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device of a tensor on the host. On CUDA it comes from pinned memory, so nothing waits for it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
