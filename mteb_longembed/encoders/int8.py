"""`:dtype=int8` on CPUs: the linear layers multiply whole numbers, everything else stays in fp32."""

from __future__ import annotations

import functools
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from mteb_longembed.errors import InputError

#: Largest number of an input: 7 bits, since processors without VNNI add two products in 16 bits (2 * 127 * 127).
_INPUT = 63
#: Largest number of a weight.
_WEIGHT = 127
#: Packed weights by their layer: kept apart, since they belong to one process and one processor.
_PACKED: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()


class Int8Linear(nn.Module):
    """A linear layer in int8: one scale an output of the weight, and one scale a token of the input.

    Source: Dettmers et al. 2022, arXiv:2208.07339, section 3.1 (row-wise and column-wise scales).
    Differs: inputs have 7 bits, and no columns stay in higher precision. Results do not depend on other tokens.
    """

    weight: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1).clamp(min=1e-12) / _WEIGHT
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float().clone())

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            raise InputError(
                f"dtype=int8 runs on a CPU only, got an input on {x.device.type}: use dtype=bf16 there."
            )
        if self.training and torch.is_grad_enabled():
            raise InputError("dtype=int8 cannot be trained: train in fp32, and use int8 afterwards.")
        rows = x.detach().reshape(-1, self.in_features)
        low, high = torch.aminmax(rows, dim=-1, keepdim=True)
        scale = torch.maximum(high, -low).clamp_(min=1e-12) / _INPUT
        # few passes over memory: the conversion cuts off, so that a half more rounds
        integers = (rows / scale).add_(_INPUT + 1.5).to(torch.uint8)
        product = self._product(integers).mul_(scale)
        if self.bias is not None:
            product += self.bias
        return product.view(*x.shape[:-1], self.out_features)

    def _product(self, integers: Tensor) -> Tensor:
        packed = _PACKED.get(self)
        if packed is None:
            packed = _PACKED[self] = torch.ops.onednn.qlinear_prepack(self.weight, None)
        zeros = torch.zeros(self.out_features, dtype=torch.int64)
        return torch.ops.onednn.qlinear_pointwise(
            integers, 1.0, _INPUT + 1, packed, self.scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )


def in_int8(model: nn.Module) -> nn.Module:
    """Replace the linear layers of a model in fp32 by layers in int8, in place."""
    check_int8()
    for name, module in list(model.named_modules(remove_duplicate=False)):
        # subclasses mean something of their own
        if type(module) is nn.Linear:
            model.set_submodule(name, Int8Linear(module).train(module.training))
    return model


def check_int8(device: str | None = None) -> None:
    """Refuse int8 on a device (None: the CPU) where its kernel is missing or computes something else."""
    if device is not None and torch.device(device).type != "cpu":
        raise InputError(f"dtype=int8 runs on a CPU only, got the device {device!r}: use dtype=bf16 there.")
    if not _kernel_is_right():
        raise InputError(
            f"dtype=int8 needs the int8 kernel of oneDNN, which torch {torch.__version__} does not have on this "
            "processor: leave dtype out."
        )


@functools.cache
def _kernel_is_right() -> bool:
    """Whether the kernel gives the exact products of the largest numbers, where 16 bits could overflow."""
    layer = Int8Linear(nn.Linear(64, 16)).eval()
    layer.weight.fill_(_WEIGHT)
    layer.weight[::2] = -_WEIGHT
    layer.scales.fill_(1.0)
    try:
        product = layer._product(torch.full((4, 64), 2 * _INPUT + 1, dtype=torch.uint8))
    except (AttributeError, RuntimeError):
        return False
    return bool((product == 64.0 * _INPUT * layer.weight[:, 0]).all())
