"""Accelerators that are not there: tensors that report one, hold their numbers on the host, and refuse what it refuses.

`Accelerator` describes a device. Inside `Accelerator.present()`, torch says that it has one, and `moved(model)` puts a
model on it. torch's attention is replaced by slow attention in fp32 that checks what the real one checks. What is not
shown: speed, and the rounding of real kernels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import inference_mode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
_INDEXING = {
    aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default,
}  # fmt: skip
_OF_DEVICE: list[Accelerator] = []


class Refused(RuntimeError):
    """What a real device or kernel would have raised."""


def check(fine: bool, rule: str) -> None:
    if not fine:
        raise Refused(rule)


class OnDevice(Tensor):
    """A tensor of the simulated device. `host` holds its numbers."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> OnDevice:
        accelerator = _OF_DEVICE[-1]
        check(accelerator.float64 or host.dtype not in (torch.float64, torch.complex128), "no float64 here")
        made = Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype,
            device=torch.device("meta"),
        )  # fmt: skip
        made.host = host
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _OF_DEVICE[-1].device

    is_cuda = property(lambda self: _OF_DEVICE[-1].kind == "cuda")
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: False)

    def tolist(self) -> Any:
        return self.host.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a device's tensor has no numpy form: use Tensor.cpu() first")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.scaled_dot_product_attention:
            return _OF_DEVICE[-1].sdpa(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():  # results of a copy to the host are plain tensors
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _OF_DEVICE[-1].run(func, args, kwargs or {})


def _enter(self: Any) -> None:
    # wrappers of views cannot be inference tensors; for us the two differ in nothing else
    self._within = torch.no_grad() if self.mode else contextlib.nullcontext()
    self._within.__enter__()


def _leave(self: Any, *error: Any) -> None:
    self._within.__exit__(*error)


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _OF_DEVICE[-1].run(func, args, kwargs or {})


def _host(x: Any) -> Any:
    return x.host if isinstance(x, OnDevice) else x


def _wrapped(out: Any) -> Any:
    plain = lambda x: isinstance(x, Tensor) and not isinstance(x, OnDevice)  # noqa: E731
    return tree_map(lambda x: OnDevice(x) if plain(x) else x, out)


@dataclass
class Accelerator:
    """A device to simulate: torch's name of its kind, and what it can do."""

    name: str
    kind: str = "cuda"
    dtype: torch.dtype = torch.bfloat16
    float64: bool = True
    attention_calls: int = 0

    def fresh(self, **changed: Any) -> Accelerator:
        """This device, which has seen nothing yet."""
        return replace(self, attention_calls=0, **changed)

    @property
    def device(self) -> torch.device:
        return torch.device(self.kind, 0)

    def moved(self, model: nn.Module) -> Any:
        """The model in the device's number type, on it. Modules after the first stay in fp32, as in `build`."""
        children = list(model.children())
        children[0].to(self.dtype)
        for module in model.modules():
            for key, value in list(module._parameters.items()):
                if value is not None:
                    module._parameters[key] = nn.Parameter(OnDevice(value.data), requires_grad=False)
            for key, value in list(module._buffers.items()):
                if value is not None:
                    module._buffers[key] = OnDevice(value)
        return model.eval()

    @contextlib.contextmanager
    def present(self) -> Iterator[Accelerator]:
        """Inside, torch has this device."""
        cuda = self.kind == "cuda"
        patches = {
            "_lazy_init": lambda: None, "is_available": lambda: cuda, "device_count": lambda: int(cuda),
            "current_device": lambda: 0,
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.multiple(torch.cuda, **patches))
            stack.enter_context(mock.patch.multiple(inference_mode, __enter__=_enter, __exit__=_leave))
            original = torch._C._only_lift_cpu_tensors()
            torch._C._set_only_lift_cpu_tensors(True)
            stack.callback(torch._C._set_only_lift_cpu_tensors, original)
            stack.enter_context(_Mode())
            _OF_DEVICE.append(self)
            stack.callback(_OF_DEVICE.pop)
            yield self

    # ---- operators ----------------------------------------------------------------------------------------

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operator: on the host if nothing is on the device."""
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        named = kwargs.get("device")
        # composite operators in C++ believe that the wrapper's device is meta
        here = named is not None and torch.device(named).type in (self.kind, "meta")
        if not here and not any(isinstance(x, OnDevice) for x in tensors):
            return self._on_host(func, args, kwargs)
        if func is aten._to_copy.default:
            return self._copied(args[0], kwargs)
        if func is aten.copy_.default:
            _host(args[0]).copy_(_host(args[1]))
            return args[0]
        self._check_devices(func, args, tensors)
        given = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory")}
        out = func(*tree_map(_host, args), **tree_map(_host, given))
        if func._schema.is_mutable:
            known = {id(x.host): x for x in tensors if isinstance(x, OnDevice)}
            return tree_map(lambda x: known.get(id(x), x), out)
        return _wrapped(out)

    def _on_host(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func.name() in ("aten::pin_memory", "aten::_pin_memory"):
            out = args[0].clone()
            out.pinned = True
            return out
        if func.name() == "aten::is_pinned":
            return getattr(args[0], "pinned", False)
        return func(*args, **kwargs)

    def _copied(self, x: Tensor, kwargs: dict[str, Any]) -> Tensor:
        target = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
        given = {k: kwargs[k] for k in ("dtype", "memory_format") if k in kwargs}
        out = aten._to_copy.default(_host(x), **given)
        if isinstance(x, OnDevice) and target == "cpu":
            return out.clone()
        return OnDevice(out)

    def _check_devices(self, func: Any, args: Any, tensors: list[Tensor]) -> None:
        for x in tensors:
            if isinstance(x, OnDevice) or x.dim() == 0:
                continue
            if func in _INDEXING and x is not args[0]:
                continue
            shapes = [(type(t).__name__, tuple(t.shape)) for t in tensors]
            raise Refused(f"{func.name()}: tensors on {self.device} and on the host: {shapes}")

    def sdpa(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        """torch's `scaled_dot_product_attention`."""
        self.attention_calls += 1
        given = [q, k, v] if attn_mask is None else [q, k, v, attn_mask]
        check(all(isinstance(x, OnDevice) for x in given), "sdpa: tensors on the device and on the host")
        check(q.dtype == k.dtype == v.dtype, "sdpa takes one type")
        check(attn_mask is None or attn_mask.dtype in (torch.bool, q.dtype), "sdpa's mask has another type")
        mask = _host(attn_mask)
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.float()
        how = {"attn_mask": mask, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        out = nn.functional.scaled_dot_product_attention(*(x.host.float() for x in given[:3]), **how)
        return OnDevice(out.to(q.dtype))
