"""The model card of an extended model: what it is, what it was made from, how to load it, and its scores."""

from __future__ import annotations

import glob
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from huggingface_hub import EvalResult, ModelCardData
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.errors import DataError
from mteb_longembed.names.grammar import results_folder

from .adapters import adapters_on
from .bases.checkpoint import BaseCheckpoint
from .bases.facts import card_data
from .bases.spec import ModelSpec
from .modules import LongTransformer
from .plain import can_be_plain
from .span_pooling import SpanPooling
from .token_weights import TokenWeights

#: An extended model: of our classes, or loaded by stock code from a folder of ours.
Model = SentenceTransformer | MultiVectorEncoder
#: Fields that a card takes from the base's card.
_INHERITED = ("license", "license_name", "license_link", "language")
_TAGS = ("mteb-longembed", "sentence-transformers", "sentence-similarity", "feature-extraction")
#: The tag of models that a trainer changed. The hub uses the same tag.
TRAINED = "generated_from_trainer"
_CITATION = """\
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
_WHERE = "Run the code in the directory that holds this folder, or use the folder's path."
_PYTHON = """\
```python
{lines}

queries = model.encode_query(["Who keeps the lighthouse?"])
documents = model.encode_document(["The lighthouse is kept by a woman named Ada. " * 50, "It rained all day. " * 50])
print(model.similarity(queries, documents))
```
"""


def extended_card(
    model: Model, name: str, scores: Sequence[EvalResult] = (), *, is_repository: bool = False
) -> str:
    """The card of a model that `save_pretrained` or `push_to_hub` writes. `name` is a hub id or a folder's name.

    Args:
        model: the model that is saved.
        name: a hub id, or the name of a folder.
        scores: of the model, in mteb's form.
        is_repository: whether `name` is a hub id.
    """
    first = _first(model)
    is_multi_vector = isinstance(model, MultiVectorEncoder)
    strategy = first.strategy
    if is_multi_vector:
        cls = "MultiVectorEncoder"
    else:
        cls = "SentenceTransformer"
    ours = f'import mteb_longembed\n\nmodel = mteb_longembed.load("{name}")'
    theirs = f'from sentence_transformers import {cls}\n\nmodel = {cls}("{name}", trust_remote_code=True)'
    if adapters_on(first.model):
        package = "'mteb-longembed[peft]'"
    else:
        package = "mteb-longembed"
    parts = [
        f"# {name}",
        _made_of(model) + _trained(model),
        f"It needs the package `mteb-longembed`. It does not load with stock code alone, so nobody can mistake it for "
        f"its base.{'' if is_repository else ' ' + _WHERE}",
        f"```console\n$ pip install {package}\n```",
        _PYTHON.format(lines=ours),
        f"`{cls}` loads it too, if the package is installed:",
        _PYTHON.format(lines=theirs),
        f"```console\n$ mteb run -m {name if is_repository else './' + name} -t LongEmbedPasskey\n```",
        _what_it_is(model),
    ]
    if not is_multi_vector and can_be_plain(first.family, strategy, first.model.config):
        parts.append(
            f"transformers has settings for {strategy.key()} on this kind of model: `mteb-longembed export {name} "
            "FOLDER` writes a plain checkpoint that needs no package of ours, and says how that checkpoint differs."
        )
    return _assembled(model, name, parts, scores)


def exported_card(model: Model, name: str, lost: Sequence[str], scores: Sequence[EvalResult] = ()) -> str:
    """The card of a plain checkpoint that `export` writes, with a sentence for each difference (`lost`).

    Args:
        model: the extended model.
        name: of the folder.
        lost: one sentence for each difference.
        scores: of the extended model.
    """
    code = f'from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer("{name}")'
    parts = [
        f"# {name}",
        _made_of(model) + _trained(model),
        "It was exported by mteb-longembed as a plain sentence-transformers checkpoint and needs no package of ours. "
        f"{_WHERE}",
        _PYTHON.format(lines=code),
    ]
    if lost:
        parts.append("The plain checkpoint differs from the extended model in this:")
        parts.append("\n".join(f"- {sentence}" for sentence in lost))
    parts.append(f"Inputs are cut at {_first(model).strategy.target_len} tokens.")
    if scores and lost:
        parts.append("The scores below are scores of the extended model, not of this checkpoint.")
        parts.append(_table(scores))
    return _assembled(model, name, parts, () if lost else scores, _TAGS[1:])


def _first(model: Model) -> LongTransformer:
    return cast("LongTransformer", model[0])


def _checkpoint(model: Model) -> BaseCheckpoint | None:
    """What it was made as. None if stock code loaded it."""
    return getattr(model, "checkpoint", None)


def _made_of(model: Model) -> str:
    first = _first(model)
    strategy = first.strategy
    name = first.base_name
    if name.startswith("local/"):
        base = f"`{name}` (a local folder whose files hash to `{first.base_revision}`)"
    else:
        if first.base_revision:
            at = f" at commit `{first.base_revision}`"
        else:
            at = ""
        base = f"[{name}](https://huggingface.co/{name}){at}"
    if strategy.key() == "none":
        return f"{base}, for inputs of up to {strategy.target_len} tokens."
    return (
        f"{base}, which was trained on inputs of up to {strategy.trained_len} tokens, extended to "
        f"{strategy.target_len} tokens by the strategy `{strategy.key()}`."
    )


def _trained(model: Model) -> str:
    if not _was_trained(model):
        identity = getattr(model, "identity", None)
        if identity:
            was = identity().changed_from
        else:
            was = None
        if was:
            return f" It was changed after it was made as `{was}`."
        return ""
    sets = model.model_card_data.train_datasets or ()
    named = [str(name) for dataset in sets if (name := dataset.get("name") or dataset.get("id"))]
    return f" Weights were then trained{' on ' + ', '.join(named) if named else ''}."


def _was_trained(model: Model) -> bool:
    tags = list(model.model_card_data.tags or ())
    checkpoint = _checkpoint(model)
    if checkpoint is not None and checkpoint.saved:
        saved = card_data(checkpoint.files).get("tags")
        tags += saved if isinstance(saved, list) else []
    return TRAINED in tags


def _what_it_is(model: Model) -> str:
    strategy = _first(model).strategy
    lines = {
        "strategy": strategy.key(),
        "trained length": f"{strategy.trained_len} tokens",
        "target length": f"{strategy.target_len} tokens",
        "positions of the base": _first(model).family.name,
        **{f"parameter {key}": str(value) for key, value in strategy.settings().items()},
    }
    if isinstance(model, MultiVectorEncoder):
        vectors = next((part.vectors for part in model if isinstance(part, SpanPooling)), None)
        spans = {"window": "each window", "None": "each token"}
        lines["vectors a document"] = f"one for {spans.get(str(vectors), f'{vectors} tokens')}"
    for part in model:
        if isinstance(part, TokenWeights):
            lines["corpus weights"] = part.counted
    if full := _full_name(model):
        lines["made by"] = f'mteb_longembed.load("{full}")'
    table = "\n".join(f"| {key} | `{value}` |" for key, value in lines.items())
    return f"## What it is\n\n| | |\n|---|---|\n{table}\n\n```\n{model}\n```"


def _full_name(model: Model) -> str | None:
    """The name that makes this model from its base. None if the base is a folder or weights were trained."""
    checkpoint = _checkpoint(model)
    if checkpoint is None or checkpoint.base_name.startswith("local/") or _trained(model):
        return None
    if not checkpoint.saved:
        return str(checkpoint.model_name)
    strategy = checkpoint.strategy
    max_vectors = getattr(model[-1], "max_vectors", None)
    vectors = checkpoint.vectors
    params = strategy.settings()
    lengths = strategy.key(), strategy.target_len
    return str(
        ModelSpec(checkpoint.base_name, *lengths, vectors=vectors, max_vectors=max_vectors, params=params)
    )


def scores_in(results: str | Path | None, model: Model) -> list[EvalResult]:
    """The scores of a model in a folder of `mteb run --output-folder`, in mteb's form. Empty without a folder.

    Args:
        results: the folder. None for no scores.
        model: whose name and revision are looked up.
    """
    if results is None:
        return []
    from mteb.results import TaskResult

    name = model.model_card_data.model_name
    revision = model.model_card_data.base_model_revision
    root = Path(results)
    folder = results_folder(str(name))
    files = sorted(root.glob(f"**/{glob.escape(folder)}/{revision}/*.json"))
    files = [file for file in files if file.name != "model_meta.json"]
    if not files:
        raise DataError(
            f"{root} must hold results of {name} at revision {revision}, got none: run mteb with --output-folder "
            f"{root}, or leave results out."
        )
    scores: list[EvalResult] = []
    for file in files:
        try:
            with warnings.catch_warnings():
                # mteb calls this function deprecated, but the new one only writes to the hub
                warnings.simplefilter("ignore", DeprecationWarning)
                scores += TaskResult.from_disk(file).get_hf_eval_results()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"{file} is not a result that mteb wrote: {reason}.") from error
    return scores


def _table(scores: Sequence[EvalResult]) -> str:
    rows = "\n".join(
        f"| {score.dataset_name} | {score.dataset_split} | {score.metric_name} | {100 * score.metric_value:.1f} |"
        for score in scores
    )
    return f"## Scores\n\nBy mteb, times 100.\n\n| task | split | score | |\n|---|---|---|--:|\n{rows}"


def _assembled(
    model: Model, name: str, parts: list[str], scores: Sequence[EvalResult], tags: Sequence[str] = _TAGS
) -> str:
    first = _first(model)
    checkpoint = _checkpoint(model)
    if checkpoint is None:
        base_card = {}
    else:
        base_card = card_data(checkpoint.files)
    inherited = {key: base_card[key] for key in _INHERITED if base_card.get(key)}
    on_hub = bool(first.base_name) and not first.base_name.startswith("local/")
    data = ModelCardData(
        **json.loads(json.dumps(inherited, default=str)),
        base_model=first.base_name if on_hub else None,
        base_model_revision=first.base_revision if on_hub else None,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[*tags, *(["mteb"] if scores else []), *([TRAINED] if _was_trained(model) else [])],
        model_name=name if scores else None,
        eval_results=list(scores) or None,
    )
    if scores:
        parts.append(_table(scores))
    if licence := data.get("license"):
        parts.append(f"## Licence\n\n`{licence}`, the licence of its base.")
    parts.append(
        "## Citation\n\nThis paper introduces the benchmark and compares the strategies. `mteb-longembed list` names "
        f"the source of each strategy.\n\n{_CITATION}"
    )
    return f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(part.strip() for part in parts) + "\n"
