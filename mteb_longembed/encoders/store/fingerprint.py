"""One key for everything that determines an embedding: every bit of the weights, every setting, and how they run.

Names and revisions are not part of the key. Two models that are equal in all of this give the same embeddings,
whatever their names are.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from transformers import PretrainedConfig, PreTrainedTokenizerBase, ProcessorMixin

from mteb_longembed.encoders.strategies import ALGORITHM

from .checksum import checksum
from .code import code_of, is_library, read_again

if TYPE_CHECKING:
    from mteb_longembed.encoders.engine.engine import TextModel
    from mteb_longembed.encoders.engine.tokenizing import Ids

#: `(id(owner), name)` -> the part that inputs up to the trained length read. None means that they read nothing of it.
#: The owner is a module or a configuration. The name is one of its tensors, attributes or entries.
ReadByShort = Mapping[tuple[int, str], Tensor | None]

#: Attributes of modules that change no embedding: states of training, caches, bookkeeping.
_IGNORED = frozenset((
    "training", "gradient_checkpointing", "model_card_data", "generation_config", "name_or_path", "max_seq_length",
    "saved_in", "origin", "warnings_issued", "_prompt_length_mapping", "_is_hf_initialized", "max_seq_len_cached",
))  # fmt: skip
#: Entries of configurations that change no embedding.
_UNREAD = frozenset(("_name_or_path", "transformers_version", "architectures", "torch_dtype"))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OURS = "mteb_longembed."
#: Types that are left out of the key, because the token ids are part of every row's key.
_TOKENISERS = (PreTrainedTokenizerBase, ProcessorMixin)


class Unknown(Exception):
    """Something acts on a model, and its effect cannot be known."""


class Fingerprint:
    """The part of the keys that is the same for every row of one call of `encode`.

    Args:
        model: extended model, as it will run: in evaluation mode, on its device.
        device: where it runs. Kinds of devices round differently.
        form: which of the features after the last module are kept.
        kwargs: what the call passes to the modules' `forward`.

    Raises:
        Unknown: if hooks or methods that are not ours act on the model.
    """

    def __init__(
        self, model: TextModel, device: torch.device, form: str = "", kwargs: Mapping[str, Any] | None = None
    ) -> None:
        read_again()
        self.first = model.first
        common = (form, _plain(kwargs or {}), _how_it_runs(device))
        sums: dict[int, bytes] = {}
        strategy = self.first.strategy
        short = self.first.read_by_short_inputs()
        self._short = _digest(*common, _State(sums, short).of(model))
        self._long = _digest(
            *common, _State(sums, None).of(model), ALGORITHM, strategy.key(), dataclasses.asdict(strategy)
        )

        # the pooled vector of one window comes from the base, as for any short input
        self._window = _digest(
            "windows", ALGORITHM, _how_it_runs(device), _State(sums, short).before_joining(model)
        )

    def window_keys(self, ids: Sequence[Ids], prompt: str | None) -> list[bytes]:
        """The keys of the pooled windows of documents that are cut. They do not depend on how windows are joined.

        Args:
            ids: token ids of each document, prompt and special tokens included. Each document is longer than the
                length up to which the strategy does not cut.
            prompt: the prompt that was put before each text. `ids` contain it.
        """
        keys = []
        for row, settings in zip(ids, self.first.row_settings(ids, prompt), strict=True):
            # there are three numbers, because these documents are cut
            length, prefix, behind = cast("tuple[int, int, int]", settings)
            digest = hashlib.blake2b(self._window, digest_size=32)
            digest.update(f"{length} {len(row)}\n".encode())
            windows = self.first.strategy.windows(len(row), prefix, behind).numpy()
            digest.update(f"{windows.shape}\n".encode())
            digest.update(np.ascontiguousarray(windows, "<i4").tobytes())
            digest.update(np.ascontiguousarray(row, "<i4").tobytes())
            keys.append(digest.digest())
        return keys

    def keys(self, ids: Sequence[Ids], prompt: str | None) -> list[bytes]:
        """The keys of rows with these token ids.

        Args:
            ids: token ids of each document, prompt and special tokens included.
            prompt: the prompt that was put before each text. `ids` contain it.
        """
        keys = []
        for row, settings in zip(ids, self.first.row_settings(ids, prompt), strict=True):
            own = self._short if self.first.leaves_unchanged(len(row)) else self._long
            digest = hashlib.blake2b(own, digest_size=32)
            digest.update(f"{settings} {len(row)}\n".encode())
            digest.update(np.ascontiguousarray(row, "<i4").tobytes())
            keys.append(digest.digest())
        return keys


def fingerprint(*args: Any, **kwargs: Any) -> Fingerprint | None:
    """A `Fingerprint`. None with a warning if something unknown acts on the model."""
    try:
        return Fingerprint(*args, **kwargs)
    except Unknown as unknown:
        warnings.warn(
            f"{unknown}, so the key of an embedding cannot be computed: the store of embeddings is off for this model.",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


class _State:
    """Everything in a model's modules that its embeddings depend on.

    Args:
        sums: checksums of tensors by their id, shared between walks over one model.
        short: if given, only what inputs up to the trained length read.
    """

    def __init__(self, sums: dict[int, bytes], short: ReadByShort | None) -> None:
        self.sums = sums
        self.short = short
        self._entered: dict[int, int] = {}

    def of(self, model: Any) -> bytes:
        """The state of all modules of a model, in their order."""
        _check_hooks("every module", [getattr(torch_modules, f"_global{name}") for name in _HOOKS])
        for name, module in model.named_modules(remove_duplicate=False):
            _check_hooks(name or "the model", [getattr(module, hooks) for hooks in _HOOKS])
            if "forward" in vars(module):
                raise Unknown(f"{name or 'the model'} has a forward method of its own")
        root = code_of(type(model))
        return _digest(root, [(name, self._module(module)) for name, module in model.named_children()])

    def before_joining(self, model: TextModel) -> bytes:
        """The state of the modules that make the pooled vector of a window: the transformer and the pooling mode."""
        settings = {key: getattr(model.pooling, key, None) for key in Pooling.config_keys}
        return _digest(self._module(model.first.model), _plain(settings))

    def _module(self, module: nn.Module) -> object:
        if id(module) in self._entered:
            return f"as {self._entered[id(module)]}"
        self._entered[id(module)] = len(self._entered)
        found: list[object] = [code_of(type(module))]
        for name, value in sorted(_members(module)):
            if (id(module), name) in (self.short or ()):
                value = (self.short or {})[id(module), name]
            found.append((name, self._value(value)))
        return found

    def _value(self, value: Any) -> object:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(value, PretrainedConfig):
            return self._config(value)
        if isinstance(value, _TOKENISERS):
            return None
        if isinstance(value, dict):
            # sorted, because equal models may fill theirs in different orders
            return sorted(
                ((repr(_plain(key)), self._value(item)) for key, item in value.items()), key=lambda x: x[0]
            )
        if isinstance(value, (list, tuple)):
            return [self._value(item) for item in value]
        if hasattr(value, "state_of_numbers"):
            return self._value(value.state_of_numbers(short=self.short is not None))
        return _plain(value)

    def _tensor(self, tensor: Tensor) -> bytes:
        known = self.sums.get(id(tensor))
        if known is None:
            try:
                known = checksum(tensor)
            except (RuntimeError, TypeError, NotImplementedError) as error:
                raise Unknown(
                    f"a {type(tensor).__name__} of the model cannot be read bit by bit ({error})"
                ) from None
            self.sums[id(tensor)] = known
        return known

    def _config(self, config: PretrainedConfig) -> object:
        entries = {key: value for key, value in config.to_dict().items() if key not in _UNREAD}
        if (id(config), "max_position_embeddings") in (self.short or ()):
            entries.pop("max_position_embeddings", None)
        return [getattr(config, "_attn_implementation", None), _plain(entries)]


def _members(module: nn.Module) -> Iterable[tuple[str, Any]]:
    """Parameters, buffers, sub-modules and attributes of one module."""
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers", "_modules"):
            yield from value.items()
        elif name not in _IGNORED and name not in _OF_EVERY_MODULE:
            yield name, value


#: What torch keeps in every module.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def _plain(value: Any, depth: int = 4) -> object:
    """A form of the value whose `repr` is complete and the same in every process."""
    plain = functools.partial(_plain, depth=depth - 1)
    if isinstance(value, _TOKENISERS):
        return None
    if isinstance(value, (bool, int, float, str, bytes, type(None), torch.dtype)):
        return value
    if isinstance(value, enum.Enum):
        return [code_of(type(value)), value.name]
    if isinstance(value, Mapping):
        return sorted(
            ((repr(plain(key)), plain(item)) for key, item in value.items()), key=lambda pair: pair[0]
        )
    if isinstance(value, (set, frozenset)):
        return sorted(repr(plain(item)) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, functools.partial):
        return [code_of(value.func), plain(value.args), plain(value.keywords)]
    if isinstance(value, Tensor):
        return checksum(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes()]
    if isinstance(value, type):
        return code_of(value)
    if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return code_of(value)
    kind = type(value)
    if kind.__module__.startswith(_OURS):
        return None  # the strategy is in the key, and it describes our own objects
    held = getattr(value, "__dict__", {}) if depth > 0 else {}
    return [code_of(kind), plain(held)]


def _check_hooks(where: str, tables: Iterable[Mapping[int, Callable[..., Any]]]) -> None:
    for hook in (hook for table in tables for hook in table.values()):
        if not is_library(getattr(hook, "__func__", hook)):
            raise Unknown(
                f"{where} has a forward hook ({getattr(hook, '__qualname__', type(hook).__name__)})"
            )


def _how_it_runs(device: torch.device) -> object:
    """Versions, and the settings of torch that change the embeddings of the same weights."""
    kind = device.type
    autocast = torch.is_autocast_enabled(kind)
    backends: list[object] = []
    for backend, name in (
        (torch.backends, "fp32_precision"),
        (torch.backends.cuda.matmul, "fp32_precision"),
        (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
        (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
        (torch.backends.mkldnn, "fp32_precision"),
    ):
        backends.append(str(getattr(backend, name, None)))
    return [
        kind,
        [autocast, str(torch.get_autocast_dtype(kind)) if autocast else None],
        torch.get_float32_matmul_precision(),
        str(torch.get_default_dtype()),
        backends,
        [version(name) for name in ("torch", "transformers", "sentence-transformers")],
    ]


def _digest(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=32).digest()
