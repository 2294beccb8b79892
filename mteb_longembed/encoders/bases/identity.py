"""Who a model in memory is: what it was built as, as long as nothing that determines its embeddings has changed."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import xxhash
from torch import nn
from torch.nn.modules import module as torch_modules
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.strategies import ALGORITHM

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Attributes of a whole model that determine its embeddings, or how they are compared.
_OF_MODEL = ("prompts", "default_prompt_name", "similarity_fn_name")
#: Attributes that change no embedding, or that `truncate_dim` covers: dimensions are no part of a digest.
_IGNORED = frozenset((
    "training", "gradient_checkpointing", "model_card_data", "generation_config", "name_or_path", "saved_in", "origin",
    "warnings_issued", "max_seq_len_cached", "truncate_dim", "dims", "resolved", "built", "store", "cluster", "reading",
    *vars(nn.Module()),
))  # fmt: skip
#: Entries of configurations that change no embedding.
_UNREAD = frozenset(("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype"))
#: Attributes of PEFT's layers that say which adapters act.
_ADAPTERS = ("_active_adapter", "_disable_adapters")
#: Numbers of each weight that a sampled digest reads.
_SAMPLED = 64
#: Rope types whose buffers transformers itself changes while a model runs.
_STATEFUL = ("dynamic", "longrope")


@dataclasses.dataclass(frozen=True)
class Identity:
    """The name and revision under which everything about a model is kept: results, stored rows, cards.

    A model that was changed is `local/NAME` with its digest as revision, and `changed_from` is the name that it had.
    """

    name: str
    revision: str
    changed_from: str | None = None


def identity(model: Any, name: str, revision: str, built: str | None) -> Identity:
    """Who a model is now, from its digest when it was `built` (None, if nobody took it, counts as changed)."""
    now = digest(model)
    if now == built:
        return Identity(name, revision)
    return Identity(f"local/{name.rpartition('/')[2]}", f"{now}-{ALGORITHM}", changed_from=name)


def digest(model: Any, *, sampled: bool = False) -> str:
    """40 hex digits that change with everything that determines the embeddings of a model, on every device.

    Weights and buffers count bit by bit, attributes, configurations, prompts and the tokenizer by their values, hooks
    and methods of an instance by their names. Code is not read. If `sampled`, weights and buffers count by their place
    in memory, PyTorch's count of changes and some numbers: while that digest stays, only a write to `data` that leaves
    those numbers alone can have changed them.
    """
    found = hashlib.blake2b(digest_size=20)

    def add(*parts: object) -> None:
        found.update(repr(parts).encode("utf-8", "surrogatepass"))

    add([_names(getattr(torch_modules, f"_global{hooks}")) for hooks in _HOOKS])
    add([_value(getattr(model, key, None)) for key in _OF_MODEL])
    for name, module in list(model.named_modules(remove_duplicate=False))[1:]:
        hooks = [_names(getattr(module, each)) for each in _HOOKS]
        add(name, _name(type(module)), hooks, _attributes(module))
        buffers = {} if getattr(module, "rope_type", None) in _STATEFUL else module._buffers
        for key, tensor in (*module._parameters.items(), *buffers.items()):
            if tensor is not None:
                add(key, _sample(tensor) if sampled else _value(tensor))
    return found.hexdigest()


def _attributes(module: nn.Module) -> list[tuple[str, object]]:
    own = {key: each for key, each in vars(module).items() if not key.startswith("_") and key not in _IGNORED}
    if not isinstance(module, PreTrainedModel):
        own.pop("config", None)  # that of the model around it
    own |= {key: vars(module)[key] for key in _ADAPTERS if key in vars(module)}
    if vars(module).get("_query_expansion") is not None:  # of late interaction
        own["query_expansion"] = vars(module)["_query_expansion"]
    return [(key, _value(own[key])) for key in sorted(own)]


def _value(value: Any, depth: int = 6) -> object:
    """A form of a value whose `repr` is complete and the same in every process. Other objects count by their class."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (bool, int, float, str, bytes, type(None), torch.dtype)):
        return value
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), tuple(value.shape), _bits(value)]
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes()]
    if isinstance(value, PreTrainedTokenizerBase):
        return _tokenizer(value)
    if isinstance(value, PretrainedConfig):
        entries = {key: each for key, each in value.to_dict().items() if key not in _UNREAD}
        return [getattr(value, "_attn_implementation", None), _value(entries)]
    if callable(value) or depth == 0:
        return _name(value)
    if dataclasses.is_dataclass(value):
        return [_name(type(value)), _value(vars(value), depth - 1)]
    if isinstance(value, Mapping):
        return sorted((repr(key), repr(_value(each, depth - 1))) for key, each in value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_value(each, depth - 1)) for each in value)
    if isinstance(value, (list, tuple)):
        return [_value(each, depth - 1) for each in value]
    return _name(type(value))


def _sample(tensor: torch.Tensor) -> list[object]:
    numbers = tensor.detach().reshape(-1)[:: max(tensor.numel() // _SAMPLED, 1)]
    changes = 0 if tensor.is_inference() else tensor._version
    return [tensor.data_ptr(), changes, str(tensor.dtype), tuple(tensor.shape), _bits(numbers)]


def _bits(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return xxhash.xxh3_128_digest(flat.numpy().data)


def _tokenizer(tokenizer: PreTrainedTokenizerBase) -> list[object]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        words: object = sorted(tokenizer.get_vocab().items())
    else:
        # calls change truncation and padding, which are written first
        words = xxhash.xxh3_128_digest(backend.to_str().partition('"added_tokens"')[2].encode())
    sides = (tokenizer.padding_side, tokenizer.truncation_side, tokenizer.model_max_length)
    return [_name(type(tokenizer)), words, sides, sorted(tokenizer.special_tokens_map.items(), key=repr)]


def _names(hooks: Mapping[int, Any]) -> list[str]:
    # our own follow from the strategy, and move when an adapter is put around their module
    return [name for name in map(_name, hooks.values()) if not name.startswith("mteb_longembed.")]


def _name(what: Any) -> str:
    kind = what if hasattr(what, "__qualname__") else type(what)
    return f"{kind.__module__}.{kind.__qualname__}"
