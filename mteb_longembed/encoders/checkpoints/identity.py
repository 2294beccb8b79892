"""What a model in memory is: one digest of its weights and its configuration; and that of one module."""

import hashlib
import json
from dataclasses import dataclass

import torch
import xxhash
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

#: Settings of a whole model that change its embeddings, or how they are compared.
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "max_seq_length", "truncate_dim")
#: Entries of a transformers configuration that change no embedding.
_UNREAD = ("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype")
#: Entries of a module's configuration that are in its weights, or in the token ids that it gets.
_IN_TENSORS = ("vocab", "word_weights", "counted", "max_seq_length", "do_lower_case")
#: Buffers that transformers makes as long as a table of positions.
_AS_LONG_AS_TABLE = ("position_ids", "token_type_ids")
#: Rope types whose buffers transformers itself changes while a model runs.
_STATEFUL = ("dynamic", "longrope")


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


def digest(model: nn.Sequential) -> str:
    """40 hex digits over the weights and the configuration of a model. They are the same on every device."""
    hasher = hashlib.blake2b(digest_size=20)

    def add(*parts: object) -> None:
        hasher.update(repr(parts).encode("utf-8", "surrogatepass"))

    for name, module in model.named_modules():
        add(name, type(module).__qualname__)
    for name, parameter in model.named_parameters():
        add(name, str(parameter.dtype), tuple(parameter.shape), bits(parameter))
    for module in model.modules():
        if getattr(module, "rope_type", None) not in _STATEFUL:
            add([bits(buffer) for buffer in module.buffers(recurse=False)])
    add([getattr(model, name, None) for name in _SETTINGS], [_configuration(module) for module in model])
    return hasher.hexdigest()


def content(module: nn.Module, table: Tensor | None = None) -> str:
    """32 hex digits over what a module makes of token ids or vectors: its weights and its configuration.

    The weight `table` is left out, with what grows with it.
    """
    config = module.get_config_dict() if isinstance(module, Module) else {}
    entries = {}
    if isinstance(module, Transformer):
        entries = {**module.config.to_dict(), "attention": module.config._attn_implementation}
    unread = [*_UNREAD, *_IN_TENSORS]
    if table is not None:
        unread.append("max_position_embeddings")
    for key in unread:
        config.pop(key, None)
        entries.pop(key, None)
    described = [{key: config[key] for key in config if config[key] is not None}, entries]
    tensors: dict[str, Tensor] = dict(module.named_parameters())
    for name, part in module.named_modules():
        if getattr(part, "rope_type", None) not in _STATEFUL:
            own = dict(part.named_buffers(recurse=False))
            tensors.update({f"{name}.{key}": own[key] for key in own if key not in _AS_LONG_AS_TABLE})
    hasher = hashlib.blake2b(json.dumps(described, sort_keys=True, default=str).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        if table is None or tensor.data_ptr() != table.data_ptr():
            hasher.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode() + bits(tensor))
    return hasher.hexdigest()


def state_of(model: nn.Sequential) -> object:
    """What tells cheaply whether a model may have another digest: the state of each tensor, and all settings."""
    tensors = [*model.parameters(), *model.buffers()]
    states = [(id(tensor), tensor._version, tensor.data_ptr(), tensor.dtype) for tensor in tensors]
    names = [(name, type(module)) for name, module in model.named_modules()]
    configs = [part.get_config_dict() for part in list(model)[1:] if isinstance(part, Module)]
    return states, names, repr(([getattr(model, name, None) for name in _SETTINGS], configs))


def _configuration(module: nn.Module) -> str:
    """What the files of a module would say about it, and the tokenizer's own description."""
    config = {}
    if isinstance(module, Module):
        config = module.get_config_dict()
    strategy = getattr(module, "strategy", None)
    described = getattr(module, "config", None)
    entries = {}
    if described is not None:
        entries = described.to_dict()
    for key in _UNREAD:
        entries.pop(key, None)
    # calls change truncation and padding, which a tokenizer writes first
    backend = getattr(getattr(module, "tokenizer", None), "backend_tokenizer", None)
    words = ""
    if backend is not None:
        words = backend.to_str().partition('"added_tokens"')[2]
    side = getattr(getattr(module, "tokenizer", None), "truncation_side", None)
    return json.dumps([config, repr(strategy), entries, words, side], sort_keys=True, default=str)


def bits(tensor: Tensor) -> bytes:
    """A hash of the numbers of a tensor."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return xxhash.xxh3_128_digest(flat.numpy().data)
