"""The identity of a loaded model: the name of its results, whether that name still holds, and its digest."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
import xxhash
from sentence_transformers import SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.base.model_card import BaseModelCardData
from sentence_transformers.base.modules import Module
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerFast

from mteb_longembed.encoders.strategies import algorithm_of
from mteb_longembed.files import Json
from mteb_longembed.names import Identity, split_name

from .backbone import LongTransformer, backbone_of
from .families import Family, family_of
from .long_rotary import BY_LENGTH
from .resolved import Resolved
from .tokens import document_prompt, parts_of

#: Settings of a whole model that change its embeddings or their comparison.
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "max_seq_length", "truncate_dim")
#: Entries of a transformers configuration that do not change embeddings.
_UNREAD = ("_name_or_path", "transformers_version", "architectures", "torch_dtype", "dtype")
#: Entries of a module's configuration that are in its weights.
_IN_TENSORS = ("vocab", "word_weights")
#: Values of each weight that `fingerprint_of` reads.
_SAMPLED = 64


class NamedModel(BaseModel):
    """A model that knows what it was built from, and whether it has changed since."""

    #: What the model was built from.
    resolved: Resolved | None = None
    #: The fingerprint of the model when it was built. None for a model whose name does not hold.
    built_fingerprint: str | None = None

    #: Whether a document has several vectors.
    has_several_vectors: bool = False

    @property
    def backbone(self) -> LongTransformer:
        """The module that tokenises texts and holds the strategy."""
        return backbone_of(self)

    @property
    def _card_data(self) -> BaseModelCardData:
        data = self.model_card_data
        assert isinstance(data, BaseModelCardData)
        return data

    @property
    def family(self) -> Family:
        """The family of its base."""
        return family_of(self)

    def identity(self) -> Identity:
        """Return the current name and revision. A changed model is `local/NAME` with its digest.

        All weights of a changed model are read, so call it when an evaluation begins, and never for a query.
        """
        resolved = self.resolved
        if resolved is not None:
            if self.is_unchanged():
                return resolved.identity
            known = str(resolved.method)
            base = resolved.base.name
            experiment = resolved.experiment
        else:
            strategy = self.backbone.strategy
            known = self._card_data.model_name or "model"
            base = split_name(known)[0]
            experiment = {"strategy": strategy.KEY, "target_len": strategy.target_len}
            experiment["algorithm"] = algorithm_of(type(strategy))
        return Identity(f"local/{base.rpartition('/')[2]}", digest(self), experiment, changed_from=known)

    def is_unchanged(self) -> bool:
        """Return whether the model has not changed since it was built, so that its name holds."""
        return self.resolved is not None and self.built_fingerprint == fingerprint_of(self)

    def set_name(self, resolved: Resolved) -> None:
        """Record what a newly built model was built from, and set its name.

        A prompt that is saved as `passage` or `corpus` is used for documents: sentence-transformers writes an empty
        `document` beside it, and then uses that.
        """
        card = self._card_data
        prompt = document_prompt(self)
        if prompt and not self.prompts.get("document"):
            warnings.warn(
                f"the prompt of documents is empty, and another one is {prompt!r}: documents get that one. Save it as "
                "document to choose.",
                stacklevel=4,
            )
            self.prompts["document"] = prompt
        self.resolved = resolved
        card.model_name = str(resolved.method)
        card.base_model = resolved.base.extends or resolved.base.name
        if not resolved.base.files.local:
            card.base_model_revision = resolved.base.revision
        self.built_fingerprint = fingerprint_of(self)

    def __getstate__(self) -> Json:
        # torch counts the writes to each tensor, and restarts at 0 in a copy
        return {**self.__dict__, "built_fingerprint": "copied" if self.is_unchanged() else None}

    def __setstate__(self, state: Json) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.built_fingerprint == "copied":
            self.built_fingerprint = fingerprint_of(self)

    def cache_keys(self, poolings: Sequence[nn.Sequential]) -> list[object] | None:
        """Return the key of each pooling of this model in the embedding cache, by the modules after its backbone.

        None, with one warning, if its name does not hold.
        """
        resolved = self.resolved
        if resolved is None or not self.is_unchanged() or resolved.base.revision is None:
            warnings.warn(
                "the embedding cache is off for this model: it was changed after it was loaded.",
                RuntimeWarning,
                stacklevel=4,
            )
            return None
        made_by = algorithm_of(type(resolved.strategy)), repr(resolved.strategy), resolved.method.dtype
        backbone = (resolved.base.name, resolved.base.revision, *made_by, resolved.base.runs_code)
        return [(*backbone, digest(modules)) for modules in poolings]


# ---- the digest of a model ---------------------------------------------------------------------------------------


def digest(model: nn.Sequential) -> str:
    """Return 40 hex digits over the weights and the configuration of a model, the same on every device.

    All weights are read, so call it when an evaluation begins, and never for a query.
    """
    hasher = _hasher(model, _tokenizer_settings)
    for name, tensor in _tensors(model):
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        numbers = xxhash.xxh3_128_digest(flat.numpy().data)
        hasher.update(repr((name, str(tensor.dtype), tuple(tensor.shape), numbers)).encode())
    return hasher.hexdigest()


def fingerprint_of(model: nn.Sequential) -> str:
    """Return a cheap fingerprint, which shows whether the digest may have changed.

    It covers all settings, sampled values of each tensor, and torch's version counter, which counts in-place writes.
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
    tensors: list[tuple[str, Tensor]] = list(model.named_parameters())
    for name, module in model.named_modules():
        if getattr(module, "rope_type", None) not in BY_LENGTH:
            tensors += [(f"{name}.{key}", buffer) for key, buffer in module.named_buffers(recurse=False)]
    return tensors


def _hasher(model: nn.Sequential, read_tokenizer: Callable[[object], object]) -> hashlib.blake2b:
    """Hash all settings: classes, the model's settings, the configurations of its modules, tokenizers."""
    classes = [(name, type(module).__qualname__) for name, module in model.named_modules()]
    settings = [getattr(model, name, None) for name in _SETTINGS]
    if isinstance(model, SparseEncoder) and model.max_active_dims is not None:
        settings.append(model.max_active_dims)
    modules = [_configuration(module, read_tokenizer) for module in model]
    described = repr([classes, settings, modules])
    return hashlib.blake2b(described.encode("utf-8", "surrogatepass"), digest_size=20)


def _configuration(module: nn.Module, read_tokenizer: Callable[[object], object]) -> str:
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
    side = getattr(tokenizer, "truncation_side", None)
    of_tokenizer = None if tokenizer is None else [read_tokenizer(tokenizer), side]
    return json.dumps([config, entries, of_tokenizer], sort_keys=True, default=str)


def _tokenizer_settings(tokenizer: object) -> object:
    """Return all settings of a tokenizer but truncation and padding, which calls change and which come first."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    return tokenizer.backend_tokenizer.to_str().partition('"added_tokens"')[2]
