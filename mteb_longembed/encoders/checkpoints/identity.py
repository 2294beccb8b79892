"""What a model in memory is called: the name that it was given when it was loaded, until it is changed."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any

import torch
import xxhash
from sentence_transformers.base.modules import Module
from torch import Tensor, nn

from mteb_longembed.encoders.adapters import adapters_on
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.encoders.torch_parts import changes_of, forward_hooks, global_forward_hooks

#: Settings of a whole model that change its embeddings, or how they are compared.
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "max_seq_length")
#: Entries of a transformers configuration that change no embedding.
_UNREAD = ("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype")
#: Rope types whose buffers transformers itself changes while a model runs.
_STATEFUL = ("dynamic", "longrope")
#: Stands for this process where something is never found again by another one.
_PROCESS = uuid.uuid4().hex


@dataclass(frozen=True)
class Identity:
    """The name and revision under which everything about a model is kept: results, stored rows, cards.

    Args:
        name: the canonical name, or `local/NAME` for a model that was changed after it was loaded.
        revision: the revision of that name. For a changed model it is a digest of weights and configuration.
        changed_from: the name that a changed model had. None for an unchanged one.
    """

    name: str
    revision: str
    changed_from: str | None = None


class AsBuilt:
    """The parts of a model when it was built. `fits` tells later whether the model still has them.

    It sees replaced modules and parameters (adapters, `assign=True`), every write that PyTorch counts (training,
    `load_state_dict`), another compute type, other buffers, other prompts and lengths, and hooks of others. It does not
    see a write to `.data`, a replaced function, or an attribute of a module, and no weight is read.
    """

    def __init__(self, model: nn.Sequential) -> None:
        self._settings = _settings_of(model)
        # a model that moves to another device gets new buffers, so their values count
        self._buffers = [buffer.detach().cpu().clone() for buffer in _buffers(model)]
        self._modules = list(model.modules())[1:]
        self._parameters = list(model.parameters())
        self._dtypes = [parameter.dtype for parameter in self._parameters]
        self._changes = [changes_of(parameter) for parameter in self._parameters]

    def fits(self, model: nn.Sequential) -> bool:
        """Whether a model still is as it was built."""
        parameters = list(model.parameters())
        buffers = _buffers(model)
        return (
            _are_the_same(self._modules, list(model.modules())[1:])
            and _are_the_same(self._parameters, parameters)
            and self._dtypes == [parameter.dtype for parameter in parameters]
            and self._changes == [changes_of(parameter) for parameter in parameters]
            and len(self._buffers) == len(buffers)
            and all(torch.equal(old, new.cpu()) for old, new in zip(self._buffers, buffers, strict=True))
            and self._settings == _settings_of(model)
            and not foreign_hooks(model)
        )

    # PyTorch counts the changes of a copied tensor from 0. So a copy of this object keeps differences.

    def __getstate__(self) -> dict[str, Any]:
        pairs = zip(self._changes, self._parameters, strict=True)
        return {**vars(self), "_changes": [known - changes_of(parameter) for known, parameter in pairs]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        pairs = zip(self._changes, self._parameters, strict=True)
        self._changes = [difference + changes_of(parameter) for difference, parameter in pairs]


def identity(model: nn.Sequential, name: str, revision: str, built: AsBuilt | None) -> Identity:
    """What a model is called now. Without what it was when it was `built`, it counts as changed."""
    known = Identity(name, revision)
    if built is not None and built.fits(model):
        return known
    return changed(known, digest(model))


def changed(known: Identity, *parts: object) -> Identity:
    """What a model is called if it differs from a known one in these parts, such as its digest."""
    if len(parts) == 1:
        text = parts[0]
    else:
        text = hashlib.blake2b(repr(parts).encode(), digest_size=20).hexdigest()
    name = f"local/{known.name.rpartition('/')[2]}"
    return Identity(name, f"{text}-{ALGORITHM}", changed_from=known.changed_from or known.name)


def foreign_hooks(model: nn.Module) -> list[int]:
    """The numbers of the forward hooks that are not ours. In one process PyTorch never gives a number twice."""
    hooks = global_forward_hooks()
    for module in model.modules():
        hooks |= forward_hooks(module)
    return sorted(number for number, hook in hooks.items() if not _is_ours(hook))


def digest(model: nn.Sequential) -> str:
    """40 hex digits over the weights and the configuration of a model. They are the same on every device.

    With hooks of others nobody knows what a model computes, so the digest holds in this process alone.
    """
    hasher = hashlib.blake2b(digest_size=20)

    def add(*parts: object) -> None:
        hasher.update(repr(parts).encode("utf-8", "surrogatepass"))

    for name, module in model.named_modules():
        add(name, type(module).__qualname__)
    for name, parameter in model.named_parameters():
        add(name, str(parameter.dtype), tuple(parameter.shape), _bits(parameter))
    add([_bits(buffer) for buffer in _buffers(model)])
    add(_settings_of(model), [_configuration(module) for module in model])
    add([adapters_on(module) for module in model.modules() if hasattr(module, "peft_config")])
    if hooks := foreign_hooks(model):
        add(_PROCESS, hooks)
    return hasher.hexdigest()


def _configuration(module: nn.Module) -> str:
    """What the files of a module would say about it, and the tokenizer's own description."""
    if isinstance(module, Module):
        config = module.get_config_dict()
    else:
        config = {}
    strategy = getattr(module, "strategy", None)
    described = getattr(module, "config", None)
    if described is None:
        entries = {}
    else:
        entries = described.to_dict()
    for key in _UNREAD:
        entries.pop(key, None)
    # calls change truncation and padding, which a tokenizer writes first
    backend = getattr(getattr(module, "tokenizer", None), "backend_tokenizer", None)
    if backend is None:
        words = ""
    else:
        words = backend.to_str().partition('"added_tokens"')[2]
    return json.dumps([config, repr(strategy), entries, words], sort_keys=True, default=str)


def _settings_of(model: nn.Module) -> str:
    return repr([getattr(model, name, None) for name in _SETTINGS])


def _buffers(model: nn.Module) -> list[Tensor]:
    buffers: list[Tensor] = []
    for module in model.modules():
        if getattr(module, "rope_type", None) not in _STATEFUL:
            buffers += module.buffers(recurse=False)
    return buffers


def _are_the_same(old: list[Any], new: list[Any]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _is_ours(hook: object) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("mteb_longembed.")


def _bits(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return xxhash.xxh3_128_digest(flat.numpy().data)
