"""Who a model in memory is: what it was built as, as long as nothing that determines its embeddings has changed."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import sys
import uuid
from collections.abc import Iterable, Mapping

import numpy as np
import torch
import xxhash
from torch import nn
from torch.nn.modules import module as torch_modules
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.adapters import adapters_on, is_idle
from mteb_longembed.encoders.strategies import ALGORITHM, Strategy

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
#: Packages whose classes and functions determine what they do by their names, and their modules by public attributes.
_READABLE = frozenset((
    "builtins", "collections", "mteb_longembed", "numpy", "peft", "sentence_transformers", "tokenizers", "torch",
    "transformers", "transformers_modules",
))  # fmt: skip
#: The names of our classes in a digest. They never change, wherever the classes are.
_NAMES = {
    name.rpartition(".")[2]: f"mteb_longembed.encoders.{name}"
    for name in (
        "attention.plan.PlannedAttention", "families.absolute.Absolute", "families.interface.LayerAttention",
        "families.relative.Relative", "families.roformer.RoFormer",
        "families.roformer._SelfAttention", "families.rotary.MappedRotary", "families.rotary.Rotary",
        "families.unknown.UnknownPositions", "int8.Int8Linear", "modules.LongTransformer", "modules.WindowPooling",
        "span_pooling.FewerVectors", "span_pooling.RaggedVectors", "span_pooling.SpanPooling",
    )
} | {"DistanceBias": "mteb_longembed.encoders.families.relative._Biases"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Identity:
    """The name and revision under which everything about a model is kept: results, stored rows, cards.

    A model that was changed is `local/NAME` with its digest as revision, and `changed_from` is the name that it had.
    """

    name: str
    revision: str
    changed_from: str | None = None


def identity(model: nn.Sequential, name: str, revision: str, built: str | None) -> Identity:
    """Who a model is now, from its digest when it was `built` (None, if nobody took it, counts as changed)."""
    now, unread = digest(model), _tokens_of_unread(model)
    known = Identity(name, revision)
    if now == built and not unread:
        return known
    return changed(known, now, *unread)


def changed(known: Identity, *parts: object) -> Identity:
    """What a model is if it differs from a known one in these parts."""
    text = parts[0] if len(parts) == 1 else _hashed(*parts)
    name = f"local/{known.name.rpartition('/')[2]}"
    return Identity(name, f"{text}-{ALGORITHM}", changed_from=known.changed_from or known.name)


def remember(model: nn.Sequential) -> str:
    """The digest of a model that has just been built. All its parts of now belong to it, also what nobody can read."""
    vars(model)["parts_of_build"] = [(part, "") for part in _unread(model.modules())]
    return digest(model)


def digest_of_loaded(model: nn.Sequential) -> str:
    """The digest of a model that others made. If a part of it cannot be read, it is another one at every call."""
    unread = any(_unread(module.modules()) for module in model)
    return _hashed(digest(model), uuid.uuid4()) if unread else digest(model)


def digest(model: nn.Sequential, *, sampled: bool = False) -> str:
    """40 hex digits that change with everything that determines the embeddings of a model, on every device.

    Weights and buffers count bit by bit, attributes, configurations, prompts and the tokenizer by their values, hooks
    and methods of an instance by their names. Code is not read. If `sampled`, weights and buffers count by their place
    in memory, PyTorch's count of changes and some numbers: while that digest stays, only a write to `data` that leaves
    those numbers alone can have changed them.
    """
    hasher = hashlib.blake2b(digest_size=20)

    def add(*parts: object) -> None:
        hasher.update(repr(parts).encode("utf-8", "surrogatepass"))

    add([_names(getattr(torch_modules, f"_global{hooks}")) for hooks in _HOOKS])
    add([_value(getattr(model, key, None)) for key in _OF_MODEL])
    for name, module in _without_idle_adapters(model):
        hooks = [_names(getattr(module, attribute)) for attribute in _HOOKS]
        add(name, _name(type(module)), hooks, _attributes(module))
        buffers = {} if getattr(module, "rope_type", None) in _STATEFUL else module._buffers
        for key, tensor in (*module._parameters.items(), *buffers.items()):
            if tensor is not None:
                add(key, _sample(tensor) if sampled else _value(tensor))
    return hasher.hexdigest()


def _without_idle_adapters(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """All modules inside a model by their names, as if adapters that are switched off or deleted were not there."""
    named = list(model.named_modules(remove_duplicate=False))[1:]
    for owner, wrapper in named if "peft" in sys.modules else ():
        if is_idle(wrapper) and not any(_names(getattr(wrapper, hooks)) for hooks in _HOOKS):
            outer, inner = f"{owner}.", f"{owner}.base_layer."
            named = [
                (f"{name}.".replace(inner, outer, 1)[:-1], module)
                for name, module in named
                if not f"{name}.".startswith(outer) or f"{name}.".startswith(inner)
            ]
    return named


def _tokens_of_unread(model: nn.Sequential) -> list[str]:
    """For each part that came after the model was built, and that cannot be read, a token of its own."""
    known: list[tuple[object, str]] = vars(model).setdefault("parts_of_build", [])
    tokens = {id(part): token for part, token in known}
    states = []
    for part in _unread(model.modules()):
        if id(part) not in tokens:
            tokens[id(part)] = uuid.uuid4().hex
            known.append((part, tokens[id(part)]))  # as long as it is kept, no other object has its id
        if token := tokens[id(part)]:
            cells = [cell.cell_contents for cell in getattr(part, "__closure__", None) or ()]
            states.append(f"{token} {_value([getattr(part, '__dict__', None), cells])}")
    return states


def _unread(modules: Iterable[nn.Module]) -> list[object]:
    """Hooks, modules and values of which a digest says less than what they do: their code is not that of a package."""
    parts = [part for hooks in _HOOKS for part in getattr(torch_modules, f"_global{hooks}").values()]
    for module in modules:
        parts += [module, type(module), type(module).forward, *_public(module).values()]
        parts += [hook for hooks in _HOOKS for hook in getattr(module, hooks).values()]
    return [part for part in parts if not _is_readable(part)]


def _is_readable(part: object) -> bool:
    kind = part if hasattr(part, "__qualname__") else type(part)
    return str(kind.__module__).partition(".")[0] in _READABLE


def _hashed(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def _public(module: nn.Module) -> dict[str, object]:
    return {key: value for key, value in vars(module).items() if key[0] != "_" and key not in _IGNORED}


def _attributes(module: nn.Module) -> list[tuple[str, object]]:
    values = _public(module)
    if "peft_config" in values and not adapters_on(module):
        del values["peft_config"]
    if not isinstance(module, PreTrainedModel):
        values.pop("config", None)  # that of the model around it
    values |= {key: vars(module)[key] for key in _ADAPTERS if key in vars(module)}
    if vars(module).get("_query_expansion") is not None:  # of late interaction
        values["query_expansion"] = vars(module)["_query_expansion"]
    return [(key, _value(values[key])) for key in sorted(values)]


def _value(value: object, depth: int = 6) -> object:
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
        entries = {key: entry for key, entry in value.to_dict().items() if key not in _UNREAD}
        return [getattr(value, "_attn_implementation", None), _value(entries)]
    if callable(value) or depth == 0:
        return _name(value)
    if dataclasses.is_dataclass(value):
        values = value.values() if isinstance(value, Strategy) else vars(value)
        return [_name(type(value)), _value(values, depth - 1)]
    if isinstance(value, Mapping):
        return sorted((repr(key), repr(_value(entry, depth - 1))) for key, entry in value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_value(entry, depth - 1)) for entry in value)
    if isinstance(value, (list, tuple)):
        return [_value(entry, depth - 1) for entry in value]
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
    form = [_name(type(tokenizer)), words, sides, sorted(tokenizer.special_tokens_map.items(), key=repr)]
    return [*form, "split_special_tokens"] if tokenizer.split_special_tokens else form


def _names(hooks: Mapping[int, object]) -> list[str]:
    # our own follow from the strategy, and move when an adapter is put around their module
    return [name for name in map(_name, hooks.values()) if not name.startswith("mteb_longembed.")]


def _name(what: object) -> str:
    kind = what if hasattr(what, "__qualname__") else type(what)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return _NAMES.get(kind.__qualname__, name) if name.startswith("mteb_longembed.") else name
