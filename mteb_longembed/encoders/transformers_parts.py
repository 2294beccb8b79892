"""Private names of transformers that we rely on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from mteb_longembed.errors import ModelError

#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")
_CHECKPOINT = "_gradient_checkpointing_func"


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
    return type(tokenizer)._encode_plus is not PreTrainedTokenizerFast._encode_plus


def wrap_gradient_checkpointing(model: nn.Module, wrap: Callable[[Any], Any]) -> None:
    """Replace the function with which layers run again after the forward pass, where gradients are checkpointed."""
    for module in model.modules():
        attributes = vars(module)
        if attributes.get(_CHECKPOINT) is not None:
            attributes[_CHECKPOINT] = wrap(attributes[_CHECKPOINT])
