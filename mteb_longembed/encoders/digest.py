"""A digest of the weights and the configuration of a model in memory, and a cheap fingerprint of both."""

import hashlib
import json
from collections.abc import Callable

import numpy as np
import torch
import xxhash
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Module
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerFast

from mteb_longembed.files import Json

from .tokens import parts_of

#: Settings of a whole model that change its embeddings, or how they are compared.
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "max_seq_length", "truncate_dim")
#: Entries of a transformers configuration that change no embedding.
_UNREAD = ("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype")
#: Entries of a module's configuration that are in its weights.
_IN_TENSORS = ("vocab", "word_weights")
#: Rope types whose frequencies depend on the input's length in transformers, which changes their buffers while a model
#: runs.
BY_LENGTH = ("dynamic", "longrope")
#: Numbers of each weight that `state_of` reads.
_SAMPLED = 64


def digest(model: nn.Sequential) -> str:
    """Return 40 hex digits over the weights and the configuration of a model, the same on every device.

    All weights are read, so it is taken when an evaluation begins, and never for a query.
    """
    hasher = _hasher(model, words_of)
    for name, tensor in _tensors(model):
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        numbers = xxhash.xxh3_128_digest(flat.numpy().data)
        hasher.update(repr((name, str(tensor.dtype), tuple(tensor.shape), numbers)).encode())
    return hasher.hexdigest()


def state_of(model: nn.Sequential) -> str:
    """Return a cheap fingerprint that shows if the digest may differ: all settings, and numbers of each tensor.

    And how often torch counts that it was written to, so that a change of one number is seen too.
    """
    hasher = _hasher(model, parts_of)
    for name, tensor in _tensors(model):
        step = max(tensor.numel() // _SAMPLED, 1)
        some: np.ndarray = tensor.detach().reshape(-1)[::step].float().cpu().numpy()
        hasher.update(repr((name, str(tensor.dtype), tuple(tensor.shape), tensor._version)).encode())
        hasher.update(some.tobytes())
    return hasher.hexdigest()


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return all weights, and all buffers but the ones that transformers changes while a model runs."""
    found: list[tuple[str, Tensor]] = list(model.named_parameters())
    for name, module in model.named_modules():
        if getattr(module, "rope_type", None) not in BY_LENGTH:
            found += [(f"{name}.{key}", buffer) for key, buffer in module.named_buffers(recurse=False)]
    return found


def _hasher(model: nn.Sequential, words: Callable[[object], object]) -> hashlib.blake2b:
    """Hash all settings: classes, the model's settings, the configurations of its modules, tokenizers."""
    classes = [(name, type(module).__qualname__) for name, module in model.named_modules()]
    settings = [getattr(model, name, None) for name in _SETTINGS]
    if isinstance(model, SparseEncoder) and model.max_active_dims is not None:
        settings.append(model.max_active_dims)
    modules = [_configuration(module, words) for module in model]
    described = repr([classes, settings, modules])
    return hashlib.blake2b(described.encode("utf-8", "surrogatepass"), digest_size=20)


def _configuration(module: nn.Module, words: Callable[[object], object]) -> str:
    config: Json = {}
    if isinstance(module, Module):
        config = module.get_config_dict()
        config = {key: config[key] for key in config if key not in _IN_TENSORS}
    described: PretrainedConfig | None = getattr(module, "config", None)
    entries: Json = {}
    if described is not None:
        entries = {**described.to_dict(), "attention": described._attn_implementation}
    for key in _UNREAD:
        entries.pop(key, None)
    tokenizer = getattr(module, "tokenizer", None)
    read = None if tokenizer is None else [words(tokenizer), getattr(tokenizer, "truncation_side", None)]
    return json.dumps([config, entries, read], sort_keys=True, default=str)


def words_of(tokenizer: object) -> object:
    """Return all settings of a tokenizer but truncation and padding, which calls change and which it writes first."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    return tokenizer.backend_tokenizer.to_str().partition('"added_tokens"')[2]
