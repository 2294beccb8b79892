"""Private names of torch that we rely on. Each fails in one sentence if a version of torch has moved it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from mteb_longembed.errors import moved


def changes_of(tensor: Tensor) -> int:
    """How often a tensor was written to, by PyTorch's own count. Writes to `tensor.data` are not counted."""
    if tensor.is_inference():  # PyTorch does not count its changes
        return 0
    try:
        return int(tensor._version)
    except AttributeError:
        raise moved("torch", "Tensor._version") from None


def forward_hooks(module: nn.Module) -> dict[int, Any]:
    """The hooks that run before and after a module's `forward`, by their numbers."""
    try:
        return {**module._forward_hooks, **module._forward_pre_hooks}
    except AttributeError:
        raise moved("torch", "nn.Module._forward_hooks and _forward_pre_hooks") from None


def global_forward_hooks() -> dict[int, Any]:
    """The hooks that run before and after the `forward` of every module, by their numbers."""
    try:
        return {**torch_modules._global_forward_hooks, **torch_modules._global_forward_pre_hooks}
    except AttributeError:
        raise moved("torch", "nn.modules.module._global_forward_hooks") from None
