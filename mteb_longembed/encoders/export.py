"""A model as a plain checkpoint that old and new readers open, if transformers has settings for its strategy."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Router, Transformer
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.modules.token_weights import TokenWeights
from mteb_longembed.encoders.modules.transformer import LongTransformer
from mteb_longembed.errors import IncompatibleError, InputError

from .building import settings_of
from .extend import load
from .families import Family
from .families.absolute import Absolute
from .families.family import UnknownPositions
from .families.rotary import Rotary, lift_window
from .publishing.card import exported_card
from .publishing.old_readers import for_old_readers
from .strategies import Strategy
from .strategies.gp import GroupedPositions
from .strategies.ntk import NTKAware
from .strategies.pi import PositionInterpolation
from .strategies.yarn import YaRN

#: The rotary settings in a configuration of transformers.
RopeParameters = dict[str, Any]
#: What an exported model with weights and a map lacks.
_PROMPTS = (
    "exact vectors of texts with a long prompt or a new one: stock modules count the weights of prompts."
)


def export(
    model: str | SentenceTransformer | MultiVectorEncoder,
    folder: str | Path,
    *,
    trust_remote_code: bool = False,
) -> list[str]:
    """Write a model as a plain sentence-transformers folder, which old versions and servers open too.

    Args:
        model: a name, a folder that we saved, or a loaded model: an extended one, one that `adapt` made, or any
            `SentenceTransformer`. A loaded model is not changed.
        folder: must be empty or not exist.
        trust_remote_code: run the base repository's own model code.

    Returns:
        One sentence for each difference between the plain checkpoint and the model. The card of an extended model has
        them too.

    Raises:
        IncompatibleError: if a plain checkpoint would be another method.
        InputError: if the folder is not empty.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"the folder to export to must be empty or not exist, got {folder}.")
    if isinstance(model, (SentenceTransformer, MultiVectorEncoder)):
        source = copy.deepcopy(model)
    else:
        source = load(model, device="cpu", trust_remote_code=trust_remote_code)
    if not isinstance(source, SentenceTransformer):
        raise IncompatibleError(
            "several vectors a document cannot be a plain checkpoint: they are pooled by modules of ours; use "
            "save_pretrained."
        )
    first = source[0]
    if not isinstance(first, LongTransformer):
        lost = _mapped_after_pooling(source)
        source.save_pretrained(str(folder))
        return lost + for_old_readers(folder, source.max_seq_length)
    lost = _lost_in(first.family, first.strategy)
    if isinstance(first.family, Rotary) and _rope_of(first.model.config).get("rope_type") == "longrope":
        lost.append(
            "frequencies by each document's own length: transformers chooses those of a whole batch by its "
            "longest input."
        )
    modules: list[nn.Module] = [_plain_transformer(first, trust_remote_code=trust_remote_code)]
    for module in list(source)[1:]:
        if isinstance(module, TokenWeights):
            module = module.stock()
            lost.append(_PROMPTS)
        modules.append(module)
    result = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
    result.save_pretrained(str(folder), create_model_card=False)
    lost += for_old_readers(folder, first.strategy.target_len)
    card = exported_card(source, folder.resolve().name, lost)
    (folder / "README.md").write_text(card, encoding="utf-8")
    return lost


def _mapped_after_pooling(model: SentenceTransformer) -> list[str]:
    """Move the map that `adapt` applies to tokens behind the pooling, where old versions apply a Dense.

    Returns:
        A sentence that says what the two differ in, if there is such a map.
    """
    if len(model) < 2 or not isinstance(model[1], (Dense, Router)):
        return []
    moved = model.pop(1)
    for part in moved.modules():
        if isinstance(part, Dense):
            part.module_input_name = part.module_output_name = "sentence_embedding"
    model.insert(len(model) - 1, moved)  # before the Normalize
    return [_PROMPTS]


def _plain_transformer(first: LongTransformer, *, trust_remote_code: bool) -> Transformer:
    """sentence-transformers' own first module, with the strategy in its weights and settings. `first` is changed."""
    strategy = first.strategy
    family = first.family
    inner = first.model
    tokenizer = cast("PreTrainedTokenizerBase", first.tokenizer)
    state = inner.state_dict()
    if strategy.KEY != "none":
        rope = _plain_rope(family, strategy, inner.config)
        if rope is None:
            _write_table(cast("Absolute", family), inner, strategy, state)
        else:
            if "full_attention" in inner.config.rope_parameters:
                rope = {**inner.config.rope_parameters, "full_attention": rope}
            inner.config.rope_parameters = rope
            lift_window(inner.config, strategy)
    if not isinstance(family, Absolute):
        _take_longer_inputs(family, inner.config, strategy)
    tokenizer.model_max_length = strategy.target_len
    with tempfile.TemporaryDirectory() as temporary:
        inner.save_pretrained(temporary, state_dict=state)
        tokenizer.save_pretrained(temporary)
        stock: Transformer = Transformer.load(temporary, trust_remote_code=trust_remote_code)
    stock.max_seq_length = strategy.target_len
    return stock


def _plain_rope(family: Family, strategy: Strategy, config: PretrainedConfig) -> RopeParameters | None:
    """The rope parameters that express a strategy. None on absolute positions. Refuses what would be another method."""
    key = strategy.KEY
    if isinstance(family, Absolute):
        if "windows" in strategy.overrides():
            raise _refuse(family, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if isinstance(strategy, GroupedPositions) and strategy.factor != "target":
            reason = "its groups depend on each document's length; use gp:factor=target"
            raise _refuse(family, strategy, reason)
        return None
    if not isinstance(family, Rotary):
        raise _refuse(family, strategy, "transformers has no setting for it; use save_pretrained")
    if type(strategy) not in (NTKAware, PositionInterpolation, YaRN):  # a subclass is another method
        reason = "it acts on each document while it runs; use ntk, pi, yarn, or save_pretrained"
        raise _refuse(family, strategy, reason)
    rope = _rope_of(config)
    kind = rope.get("rope_type", "default")
    factor = float(rope.get("factor") or 1.0)
    # ntk and pi change frequencies that are divided already as well; yarn would drop the base's own division
    if not (kind == "default" or (kind == "linear" and (key != "yarn" or factor == 1))):
        raise IncompatibleError(
            f"{key} on top of rope scaling of type {kind} has no setting in transformers; use save_pretrained."
        )
    if isinstance(strategy, NTKAware):
        return {**rope, "rope_theta": rope["rope_theta"] * strategy.factor}
    if isinstance(strategy, PositionInterpolation):
        return {**rope, "rope_type": "linear", "factor": factor * strategy.scale}
    assert isinstance(strategy, YaRN)
    # the checkpoint is the model with logn=off, so it has YaRN's own temperature
    unscaled = dataclasses.replace(strategy, logn=False)
    return {
        **rope,
        "rope_type": "yarn",
        "factor": strategy.factor,
        "original_max_position_embeddings": strategy.trained_len,
        "beta_fast": strategy.beta_fast,
        "beta_slow": strategy.beta_slow,
        "attention_factor": float(unscaled.rotary_scale(torch.tensor(strategy.target_len))),
    }


def _rope_of(config: PretrainedConfig) -> RopeParameters:
    """The rope parameters of the layers with full attention."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _take_longer_inputs(family: Family, config: PretrainedConfig, strategy: Strategy) -> None:
    """Set the longest input to the target length, because sentence-transformers cuts inputs at this setting."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 1 or limit >= strategy.target_len:
        return
    rope: RopeParameters = {}
    if isinstance(family, Rotary):
        rope = _rope_of(config)
    kind = rope.get("rope_type", "default")
    if kind == "dynamic" or (kind in ("yarn", "longrope") and rope.get("factor") is None):
        reason = f"its rope scaling of type {kind} is made for at most {limit} tokens"
        raise _refuse(family, strategy, f"{reason}; use @{limit} or less, or save_pretrained")
    if isinstance(family, UnknownPositions):
        reason = f"its files limit inputs to {limit} tokens"
        raise _refuse(family, strategy, f"{reason}; use @{limit} or less, or save_pretrained")
    config.max_position_embeddings = strategy.target_len


def _write_table(
    family: Absolute, inner: PreTrainedModel, strategy: Strategy, state: dict[str, Tensor]
) -> None:
    """Write one row for each position, as a long document looks them up."""
    key = next(name for name in state if name.endswith("position_embeddings.weight"))
    table = state[key]
    first = family.first_row
    p = torch.arange(strategy.target_len)
    n = torch.tensor(strategy.target_len)
    if family.has_table:
        rows = strategy.table_rows(p, n)
    else:
        rows = strategy.position_ids(p, n)
    state[key] = torch.cat([table[:first], table[first + rows.to(table.device)]])
    inner.config.max_position_embeddings = len(state[key])


def _lost_in(family: Family, strategy: Strategy) -> list[str]:
    """One sentence for each difference between the plain checkpoint and the extended model."""
    lo = strategy.trained_len
    key = strategy.KEY
    lost = []
    # absolute rp and gp:factor=target read the same rows at every length
    keeps = key not in ("none", "rp", "gp") and not strategy.scales_short
    if keeps or (isinstance(family, Absolute) and key == "ntk"):
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    return lost


def _refuse(family: Family, strategy: Strategy, reason: str) -> IncompatibleError:
    """The error for a plain checkpoint that would be another method."""
    return IncompatibleError(
        f"{strategy.KEY} on {family.name} positions cannot be a plain checkpoint: {reason}."
    )
