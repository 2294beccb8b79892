"""Private names of transformers that we rely on. Each fails in one sentence if a version of it has moved it."""

from __future__ import annotations

import re

from transformers import PreTrainedModel

from mteb_longembed.errors import ModelError

#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")


def check_all_loaded(model: PreTrainedModel, path: str) -> None:
    """Raise ModelError if a model that has just been loaded needs weights that its checkpoint in `path` lacks."""
    missing = sorted(
        name
        for name, weight in model.named_parameters()
        if not getattr(weight, "_is_hf_initialized", False) and not _HEADS.search(name)
    )
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise ModelError(f"the checkpoint in {path} lacks weights that the model needs: {shown}.")
