"""The model card of an extended model: what it is, what it was made from, and how to load it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from huggingface_hub import ModelCardData
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from .adapters import adapters_on
from .built_model import BuiltModel
from .checkpoints.facts import card_data
from .checkpoints.strategy_file import Json
from .modules import LongTransformer
from .span_pooling import SpanPooling
from .token_weights import TokenWeights

#: An extended model: of our classes, or loaded by stock code from a folder of ours.
Model = SentenceTransformer | MultiVectorEncoder
#: Fields that a card takes from the base's card.
_INHERITED = ("license", "license_name", "license_link", "language")
_TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction")
#: The tag of models that a trainer changed. The hub uses the same tag.
TRAINED = "generated_from_trainer"
_EXTENDED = """\
# {name}

{made_of}

It needs the package `mteb-longembed`. It does not load with stock code alone, so nobody mistakes it for
its base.{where}

```console
$ pip install {package}
$ mteb run -m {run} -t LongEmbedPasskey
```

```python
import mteb_longembed

model = mteb_longembed.load("{name}")
{encode}
```

`{kind}("{name}", trust_remote_code=True)` loads it too, if the package is installed.

| | |
|---|---|
{table}
"""
_EXPORTED = """\
# {name}

{made_of}

It was exported by mteb-longembed as a plain sentence-transformers checkpoint and needs no package of ours.{where}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
{encode}
```

Inputs are cut at {target_len} tokens.
"""
#: How a folder is found.
_WHERE = " Run the code in the directory that holds this folder, or use the folder's path."
_ENCODE = """\
queries = model.encode_query(["Who keeps the lighthouse?"])
documents = model.encode_document(["The lighthouse is kept by a woman named Ada. " * 50, "It rained all day. " * 50])
print(model.similarity(queries, documents))"""
_CITATION = """\
## Citation

This paper introduces the benchmark and compares the strategies. `mteb-longembed list` names the source of each.

```bibtex
@inproceedings{zhu-etal-2024-longembed,
    title = "{L}ong{E}mbed: Extending Embedding Models for Long Context Retrieval",
    author = "Zhu, Dawei and Wang, Liang and Yang, Nan and Song, Yifan and Wu, Wenhao and Wei, Furu and Li, Sujian",
    booktitle = "Proceedings of the 2024 Conference on Empirical Methods in Natural Language Processing",
    year = "2024",
    url = "https://arxiv.org/abs/2404.12096",
}
```
"""


def extended_card(model: Model, name: str, *, is_repository: bool = False) -> str:
    """The card of a model that `save_pretrained` or `push_to_hub` writes.

    Args:
        model: the model that is saved.
        name: a hub id, or the name of a folder.
        is_repository: whether `name` is a hub id.
    """
    kind = "SentenceTransformer"
    if isinstance(model, MultiVectorEncoder):
        kind = "MultiVectorEncoder"
    package = "mteb-longembed"
    if adapters_on(_first(model).model):
        package = "'mteb-longembed[peft]'"
    where = _WHERE
    run = f"./{name}"
    if is_repository:
        where = ""
        run = name
    table = "\n".join(f"| {key} | `{value}` |" for key, value in _rows(model).items())
    text = _EXTENDED.format(
        name=name, made_of=_made_of(model), where=where, package=package, run=run, kind=kind, table=table,
        encode=_ENCODE,
    )  # fmt: skip
    return _with_data(model, text, ("mteb-longembed", *_TAGS))


def exported_card(model: Model, name: str, lost: Sequence[str]) -> str:
    """The card of a plain checkpoint that `export` writes.

    Args:
        model: the extended model.
        name: of the folder.
        lost: one sentence for each difference between the two.
    """
    target_len = _first(model).strategy.target_len
    text = _EXPORTED.format(
        name=name, made_of=_made_of(model), where=_WHERE, target_len=target_len, encode=_ENCODE
    )
    if lost:
        sentences = "\n".join(f"- {sentence}" for sentence in lost)
        text += f"\nThe plain checkpoint differs from the extended model in this:\n\n{sentences}\n"
    return _with_data(model, text, _TAGS)


def _first(model: Model) -> LongTransformer:
    return cast("LongTransformer", model[0])


def _made_of(model: Model) -> str:
    """The base, the lengths and the strategy in a sentence, and whether weights changed since."""
    first = _first(model)
    strategy = first.strategy
    name = first.base_name
    if name.startswith("local/"):
        base = f"`{name}` (a local folder whose files hash to `{first.base_revision}`)"
    else:
        base = f"[{name}](https://huggingface.co/{name})"
        if first.base_revision:
            base += f" at commit `{first.base_revision}`"
    if strategy.KEY == "none":
        made = f"{base}, for inputs of up to {strategy.target_len} tokens."
    else:
        made = (
            f"{base}, which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
            f"{strategy.target_len} tokens by the strategy `{strategy.KEY}`."
        )
    if _was_trained(model):
        return f"{made} Weights were then trained."
    if isinstance(model, BuiltModel) and model.identity().changed_from:
        return f"{made} It was changed after it was made as `{model.identity().changed_from}`."
    return made


def _was_trained(model: Model) -> bool:
    """Whether a trainer changed the weights, of this model or of the saved one that it was loaded from."""
    if TRAINED in (model.model_card_data.tags or ()):
        return True
    if not isinstance(model, BuiltModel) or model.checkpoint is None or not model.checkpoint.saved:
        return False
    return TRAINED in str(card_data(model.checkpoint.files).get("tags"))


def _rows(model: Model) -> dict[str, str]:
    """What the model is, for a table."""
    first = _first(model)
    strategy = first.strategy
    rows = {
        "strategy": strategy.KEY,
        "trained length": f"{strategy.trained_len} tokens",
        "target length": f"{strategy.target_len} tokens",
        "positions of the base": first.family.name,
        **{f"parameter {key}": str(value) for key, value in strategy.settings().items()},
    }
    for part in model:
        if isinstance(part, SpanPooling):
            span = f"{part.vectors} tokens"
            if part.vectors == "window":
                span = "each window"
            rows["vectors a document"] = f"one for {span}"
        if isinstance(part, TokenWeights):
            rows["corpus weights"] = part.counted
    return rows


def _with_data(model: Model, text: str, tags: Sequence[str]) -> str:
    """A card with its data at the top and the paper at its end."""
    base_card: Json = {}
    if isinstance(model, BuiltModel) and model.checkpoint is not None:
        base_card = card_data(model.checkpoint.files)
    inherited = {key: base_card[key] for key in _INHERITED if base_card.get(key)}
    first = _first(model)
    if first.base_name and not first.base_name.startswith("local/"):
        inherited |= {"base_model": first.base_name, "base_model_revision": first.base_revision}
    all_tags = [*tags]
    if _was_trained(model):
        all_tags.append(TRAINED)
    data = ModelCardData(
        **json.loads(json.dumps(inherited, default=str)),
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=all_tags,
    )
    return f"---\n{data.to_yaml()}\n---\n\n{text}\n{_CITATION}"
