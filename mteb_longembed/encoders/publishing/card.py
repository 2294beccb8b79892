"""The model card of an extended model: what it is, what it was made from, and how to load it."""

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, cast

from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.encoders.checkpoints.model_files import local_name
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.heads.weights import TokenWeights
from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.files import is_folder

#: The tag of a model that `adapt` made.
ADAPTED = "corpus-adapted"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]


def extended_card(
    model: SentenceTransformer | MultiVectorEncoder, name: str, *, is_repository: bool = False
) -> str:
    """The card of a model that `save_pretrained` or `push_to_hub` writes, under a hub id or the name of a folder."""
    run = name if is_repository else f"./{name}"
    return _card("extended.md", model, ["mteb-longembed", *_TAGS], name=name, run=run, rows=_rows(model))


def exported_card(model: SentenceTransformer, name: str, lost: Sequence[str]) -> str:
    """The card of a plain checkpoint of a model that `export` writes, which lacks what the sentences `lost` say."""
    about = {
        "lost": lost,
        "target_len": cast("LongTransformer", model[0]).strategy.target_len,
        "is_adapted": ADAPTED in (model.model_card_data.tags or ()),
    }
    return _card("exported.md", model, _TAGS, name=name, **about)


def adapted_card(name: str, base: str, how: str) -> str:
    """The card of a model of stock modules that `adapt` made of a base; a base on the hub is linked."""
    shown = f"`{local_name(base).removeprefix('local/')}`"
    base_model = None
    if _HUB_ID.fullmatch(base) and not base.startswith("local/") and not is_folder(base):
        shown = f"[{base}](https://huggingface.co/{base})"
        base_model = base
    return _written("adapted.md", [*_TAGS, ADAPTED], base_model, name=name, base=shown, how=how)


def _card(
    template: str, model: SentenceTransformer | MultiVectorEncoder, tags: list[str], **values: Any
) -> str:
    """The card of a model that has a trunk of ours."""
    trunk = cast("LongTransformer", model[0])
    base: str | None = trunk.base_name
    if trunk.base_name.startswith("local/"):
        base = None
    tags = tags + [tag for tag in model.model_card_data.tags or () if tag not in tags]
    return _written(template, tags, base, made_of=_made_of(trunk), **values)


def _written(template: str, tags: list[str], base_model: str | None, **values: Any) -> str:
    """A card by one of the templates beside this module."""
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=tags,
        base_model=base_model,
    )
    text = resources.files(__package__).joinpath(template).read_text(encoding="utf-8")
    return str(ModelCard.from_template(data, template_str=text, **values))


def _made_of(trunk: LongTransformer) -> str:
    """The base, the lengths and the strategy in a sentence."""
    strategy = trunk.strategy
    name = trunk.base_name
    if name.startswith("local/"):
        base = f"`{name}` (a local folder whose files hash to `{trunk.base_revision}`)"
    else:
        base = f"[{name}](https://huggingface.co/{name})"
        if trunk.base_revision:
            base += f" at commit `{trunk.base_revision}`"
    if not strategy.overrides():
        return f"{base}, for inputs of up to {strategy.target_len} tokens."
    return (
        f"{base}, which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
        f"{strategy.target_len} tokens by the strategy `{strategy.KEY}`."
    )


def _rows(model: SentenceTransformer | MultiVectorEncoder) -> dict[str, str]:
    """What the model is, for a table."""
    trunk = cast("LongTransformer", model[0])
    strategy = trunk.strategy
    rows = {
        "strategy": strategy.KEY,
        "trained length": f"{strategy.trained_len} tokens",
        "target length": f"{strategy.target_len} tokens",
        "positions of the base": trunk.family.name,
        **{f"parameter {key}": str(value) for key, value in strategy.settings().items()},
    }
    head = Head.of(model)
    if isinstance(head.vectors, int):
        rows["vectors a document"] = f"one for {head.vectors} tokens"
    elif head.vectors is not None:
        rows["vectors a document"] = f"one for each {head.vectors}"
    if isinstance(head.weights, TokenWeights):
        rows["corpus weights"] = head.weights.counted
    return rows
