"""Private names of transformers that we rely on. Each fails in one sentence if a version of it has moved it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from mteb_longembed.errors import ModelError, moved

#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")
_CHECKPOINT = "_gradient_checkpointing_func"
_ADAPTED = "_hf_peft_config_loaded"


def check_all_loaded(model: PreTrainedModel, path: str) -> None:
    """Raise ModelError if a model that has just been loaded needs weights that its checkpoint in `path` lacks."""
    missing = []
    for name, weight in model.named_parameters():
        if not getattr(weight, "_is_hf_initialized", False) and not _HEADS.search(name):
            missing.append(name)
    if not missing:
        return
    missing.sort()
    shown = ", ".join(missing[:3])
    if len(missing) > 3:
        shown += f" and {len(missing) - 3} more"
    raise ModelError(f"the checkpoint in {path} lacks weights that the model needs: {shown}.")


def reads_texts_itself(tokenizer: PreTrainedTokenizerFast) -> bool:
    """Whether a fast tokenizer has a method of its own in the place of the one that we replace."""
    return _part(type(tokenizer), "_encode_plus") is not _part(PreTrainedTokenizerFast, "_encode_plus")


def attention_name(config: PretrainedConfig) -> str | None:
    """The name of the attention function that a model uses."""
    name: str | None = _part(config, "_attn_implementation")
    return name


def wrap_gradient_checkpointing(model: nn.Module, wrap: Callable[[Any], Any]) -> None:
    """Replace the function with which layers run again after the forward pass, where gradients are checkpointed."""
    for module in model.modules():
        attributes = vars(module)
        if attributes.get(_CHECKPOINT) is not None:
            attributes[_CHECKPOINT] = wrap(attributes[_CHECKPOINT])


def mark_adapters(model: PreTrainedModel, has_adapters: bool) -> None:
    """Tell transformers whether a model has adapters of PEFT. It saves a model without adapters as a whole."""
    _part(PreTrainedModel, _ADAPTED)
    setattr(model, _ADAPTED, has_adapters)
    if not has_adapters:
        # those of an adapter that was loaded would put PEFT's prefix before every name; None: the model's own
        vars(model)["_weight_conversions"] = None


@contextmanager
def without_adapters(model: PreTrainedModel) -> Iterator[None]:
    """Inside, transformers takes a model for one without adapters."""
    had_adapters = bool(_part(type(model), _ADAPTED) or vars(model).get(_ADAPTED))
    mark_adapters(model, has_adapters=False)
    try:
        yield
    finally:
        setattr(model, _ADAPTED, had_adapters)


def _part(owner: object, name: str) -> Any:
    """A private attribute of a class or an object, which fails in one sentence if it has moved."""
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = owner if isinstance(owner, type) else type(owner)
        raise moved("transformers", f"{kind.__name__}.{name}") from None
