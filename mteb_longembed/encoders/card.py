"""The model card of an extended model: what it is, what it was made from, and how to load it."""

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers.sentence_transformer.modules import WordWeights

from mteb_longembed.names import is_folder

#: The tag of a model that `adapt` made.
ADAPTED = "corpus-adapted"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]


def extended_card(model: Any, name: str, *, is_repository: bool = False) -> str:
    """The card of a model that `save_pretrained` or `push_to_hub` writes, under a hub id or the name of a folder."""
    run = name if is_repository else f"./{name}"
    return _card(
        "extended.md", _tags(model, "mteb-longembed"), model[0].base_name, name=name, run=run, **_facts(model)
    )


def exported_card(model: Any, name: str, lost: Sequence[str]) -> str:
    """The card of a plain checkpoint of a model that `export` writes, which lacks what the sentences `lost` say."""
    tags = _tags(model)
    facts = {"lost": lost, "is_adapted": ADAPTED in tags, "target_len": model[0].strategy.target_len}
    return _card("exported.md", tags, model[0].base_name, name=name, **facts, **_facts(model))


def adapted_card(name: str, base: str, how: str) -> str:
    """The card of a model of stock modules that `adapt` made of a base; a base on the hub is linked."""
    made_from = base
    shown = _link(base)
    if not _HUB_ID.fullmatch(base) or is_folder(base):
        made_from = "local/"
        shown = f"`{base.rstrip('/').rpartition('/')[2]}`"
    return _card("adapted.md", [*_TAGS, ADAPTED], made_from, name=name, base=shown, how=how)


def _tags(model: Any, *first: str) -> list[str]:
    return list(dict.fromkeys([*first, *_TAGS, *(model.model_card_data.tags or ())]))


def _link(base: str) -> str:
    return (
        f"`{base}` (a local folder)"
        if base.startswith("local/")
        else f"[{base}](https://huggingface.co/{base})"
    )


def _card(template: str, tags: list[str], made_from: str, **values: Any) -> str:
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=tags,
        base_model=None if made_from.startswith("local/") else made_from,
    )
    text = (resources.files(__package__) / "cards" / template).read_text(encoding="utf-8")
    return str(ModelCard.from_template(data, template_str=text, **values))


def _facts(model: Any) -> dict[str, str]:
    """The base, the lengths and the strategy in a sentence, and the whole name."""
    trunk = model[0]
    strategy = trunk.strategy
    base = _link(trunk.base_name)
    if trunk.base_revision and not trunk.base_name.startswith("local/"):
        base += f" at commit `{trunk.base_revision}`"
    made_of = f"{base}, for inputs of up to {strategy.target_len} tokens."
    if strategy.extends:
        made_of = (
            f"{base}, which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
            f"{strategy.target_len} tokens by the strategy `{strategy.KEY}`."
        )
    if any(isinstance(module, WordWeights) for module in model):
        made_of += " Tokens count by their rarity in one corpus."
    return {"made_of": made_of, "full_name": str(model.model_card_data.model_name)}
