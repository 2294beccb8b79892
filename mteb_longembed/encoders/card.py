"""The model card of an extended model: what it is, what it was made from, and how to load it."""

import re
from collections.abc import Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any

from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers.base import BaseModel
from sentence_transformers.base.model_card import BaseModelCardData
from sentence_transformers.sentence_transformer.modules import WordWeights

from mteb_longembed.files import Json
from mteb_longembed.names import Settings
from mteb_longembed.zoo import is_folder

from .backbone import backbone_of
from .families import STOCK_CLASSES, family_of

#: The tag of a model that `adapt` made.
ADAPTED = "corpus-adapted"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
#: Facts on the card of a base that also hold for models made from it.
_FACTS = ("license", "license_name", "license_link", "language", "base_model")
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]


def set_card(model: BaseModel, text: str | None) -> None:
    """Make sentence-transformers save this text as the model's card, in place of its own."""
    model._model_card_text = text  # type: ignore[assignment]  # its type says only None


def facts_of(card: str) -> Json:
    """Return licence, language and base model from the text of a card; nothing if it cannot be read."""
    if not card.lstrip().startswith("---"):
        return {}
    try:
        data: Any = ModelCard(card, ignore_metadata_errors=True).data
        facts = data.to_dict()
    except Exception:  # raised by the YAML library, an indirect dependency
        return {}
    return {key: facts[key] for key in _FACTS if facts.get(key)}


def card_of(model: BaseModel, name: str, *, lost: Sequence[str] | None = None) -> str:
    """Return the card of an extended model, under a hub id or the name of a folder.

    Args:
        model: one of our models.
        name: a hub id or the name of a folder.
        lost: for a plain checkpoint, how it differs from the model, in sentences. None for the model itself.
    """
    data = model.model_card_data
    assert isinstance(data, BaseModelCardData)
    tags = list(data.tags or ())
    if lost is None:
        tags.insert(0, "mteb-longembed")
    first = backbone_of(model)
    strategy = first.strategy
    base = first.base_name
    made_of = _link(base)
    if first.base_revision and not base.startswith("local/"):
        made_of += f" at commit `{first.base_revision}`"
    if strategy.extends:
        made_of += (
            f", which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
            f"{strategy.target_len} tokens by the strategy `{strategy.KEY}`."
        )
    else:
        made_of += f", for inputs of up to {strategy.target_len} tokens."
    family = family_of(model)
    if family == "late-interaction":
        made_of += (
            " That length decides how much of a document is read, not the `document_length` of the base."
        )
    if any(isinstance(module, WordWeights) for module in model):
        made_of += " Tokens are weighted by their frequency in one corpus."
    facts = {"made_of": made_of, "full_name": data.model_name, "lost": lost}
    run = name if "/" in name else f"./{name}"
    return _card(
        "extended.md",
        tags,
        base,
        facts_of(first.base_card),
        name=name,
        run=run,
        stock_class=STOCK_CLASSES[family].__name__,
        is_adapted=ADAPTED in tags,
        **facts,
    )


def adapted_card(name: str, base: str, how: str, facts: Settings = MappingProxyType({})) -> str:
    """Return the card of a model of stock modules that `adapt` made; link a base on the hub.

    Args:
        name: the name of the model.
        base: a hub id or a folder.
        how: what was fitted.
        facts: the facts of the base's card.
    """
    if not _HUB_ID.fullmatch(base) or is_folder(base):
        base = f"local/{base.rstrip('/').rpartition('/')[2]}"
    return _card("adapted.md", [ADAPTED], base, facts, name=name, base=_link(base), how=how)


def _link(base: str) -> str:
    if base.startswith("local/"):
        return f"`{base}` (a local folder)"
    return f"[{base}](https://huggingface.co/{base})"


def _card(template: str, tags: Sequence[str], made_from: str, facts: Settings, **values: Any) -> str:
    # the card of a base in a folder may name the model it was made from
    data_of_base = {**facts, "base_model": facts.get("base_model")}
    if not made_from.startswith("local/"):
        data_of_base["base_model"] = made_from
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=list(dict.fromkeys([*tags, *_TAGS])),
        **data_of_base,
    )
    text = (resources.files(__package__) / "cards" / template).read_text(encoding="utf-8")
    return str(ModelCard.from_template(data, template_str=text, **values))
