"""The model card of an extended model: what it is, what it was made from, and how to load it."""

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from mteb_longembed.names import is_folder

from .head import Head
from .weights import TokenWeights

#: The tag of a model that `adapt` made.
ADAPTED = "corpus-adapted"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]


def extended_card(model: Any, name: str, *, is_repository: bool = False) -> str:
    """The card of a model that `save_pretrained` or `push_to_hub` writes, under a hub id or the name of a folder."""
    run = name if is_repository else f"./{name}"
    tags = ["mteb-longembed", *_TAGS]
    return _written("extended.md", model, tags, name=name, run=run, rows=_rows(model))


def exported_card(model: Any, name: str, lost: Sequence[str]) -> str:
    """The card of a plain checkpoint of a model that `export` writes, which lacks what the sentences `lost` say."""
    is_adapted = ADAPTED in (model.model_card_data.tags or ())
    target_len = model[0].strategy.target_len
    return _written(
        "exported.md", model, _TAGS, name=name, lost=lost, is_adapted=is_adapted, target_len=target_len
    )


def adapted_card(name: str, base: str, how: str) -> str:
    """The card of a model of stock modules that `adapt` made of a base; a base on the hub is linked."""
    shown = f"`{base.rstrip('/').rpartition('/')[2]}`"
    base_model = None
    if _HUB_ID.fullmatch(base) and not base.startswith("local/") and not is_folder(base):
        shown = f"[{base}](https://huggingface.co/{base})"
        base_model = base
    return _card("adapted.md", [*_TAGS, ADAPTED], base_model, name=name, base=shown, how=how)


def _written(template: str, model: Any, tags: list[str], **values: Any) -> str:
    """The card of a model with our first module."""
    base: str | None = model[0].base_name
    if str(base).startswith("local/"):
        base = None
    tags = tags + [tag for tag in model.model_card_data.tags or () if tag not in tags]
    return _card(template, tags, base, made_of=_made_of(model[0]), **values)


def _card(template: str, tags: list[str], base_model: str | None, **values: Any) -> str:
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=tags,
        base_model=base_model,
    )
    text = (resources.files(__package__) / "cards" / template).read_text(encoding="utf-8")
    return str(ModelCard.from_template(data, template_str=text, **values))


def _made_of(trunk: Any) -> str:
    """The base, the lengths and the strategy in a sentence."""
    strategy = trunk.strategy
    base = f"`{trunk.base_name}` (a local folder)"
    if not trunk.base_name.startswith("local/"):
        base = f"[{trunk.base_name}](https://huggingface.co/{trunk.base_name})"
        if trunk.base_revision:
            base += f" at commit `{trunk.base_revision}`"
    if not strategy.overrides():
        return f"{base}, for inputs of up to {strategy.target_len} tokens."
    return (
        f"{base}, which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
        f"{strategy.target_len} tokens by the strategy `{strategy.KEY}`."
    )


def _rows(model: Any) -> dict[str, str]:
    """What the model is, for a table."""
    strategy = model[0].strategy
    head = Head.of(model)
    rows = {
        "strategy": strategy.KEY,
        "trained length": f"{strategy.trained_len} tokens",
        "target length": f"{strategy.target_len} tokens",
        **{f"parameter {key}": str(value) for key, value in strategy.settings().items()},
    }
    if head.vectors is not None:
        each = f"{head.vectors} tokens" if isinstance(head.vectors, int) else f"each {head.vectors}"
        rows["vectors a document"] = f"one for {each}"
    if isinstance(head.weights, TokenWeights):
        rows["corpus weights"] = head.weights.counted
    return rows
