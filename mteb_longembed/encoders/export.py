"""A model as a plain checkpoint that old and new readers open, if transformers has settings for its strategy."""

import copy
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.extend import load
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.heads.weights import TokenWeights
from mteb_longembed.encoders.model import settings_of
from mteb_longembed.encoders.positions.families import Family
from mteb_longembed.encoders.positions.families.absolute import Absolute
from mteb_longembed.encoders.positions.families.family import UnknownPositions
from mteb_longembed.encoders.positions.families.rotary import Rotary, lift_window
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.encoders.positions.strategies.gp import GroupedPositions
from mteb_longembed.encoders.publishing.card import exported_card
from mteb_longembed.encoders.publishing.old_readers import check_old_readers, for_old_readers
from mteb_longembed.encoders.trunk import LongTransformer
from mteb_longembed.errors import IncompatibleError, InputError

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
    head = Head.of(source)
    lost = [] if head.weights is None else [_PROMPTS]
    if isinstance(first, LongTransformer):
        lost += _lost_in(first.family, first.strategy)
        if isinstance(first.family, Rotary) and _rope_of(first.model.config).get("rope_type") == "longrope":
            lost.append(
                "frequencies by each document's own length: transformers chooses those of a whole batch by its "
                "longest input."
            )
        length: int | None = first.strategy.target_len
        trunk: nn.Module = _plain_transformer(first, trust_remote_code=trust_remote_code)
    else:
        length = source.max_seq_length
        trunk = first
    modules = [trunk, *head.modules()]
    if isinstance(head.weights, TokenWeights):
        modules[1] = head.weights.stock()
    check_old_readers(modules)
    plain = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
    if isinstance(first, LongTransformer):
        plain.save_pretrained(str(folder), create_model_card=False)
        card = exported_card(source, folder.resolve().name, lost)
        (folder / "README.md").write_text(card, encoding="utf-8")
    else:
        plain.model_card_data = source.model_card_data
        cast("Any", plain)._model_card_text = cast("Any", source)._model_card_text
        plain.save_pretrained(str(folder))
    return lost + for_old_readers(folder, length)


def _plain_transformer(first: LongTransformer, *, trust_remote_code: bool) -> Transformer:
    """sentence-transformers' own first module, with the strategy in its weights and settings. `first` is changed."""
    strategy = first.strategy
    family = first.family
    inner = first.model
    tokenizer = cast("PreTrainedTokenizerBase", first.tokenizer)
    state = inner.state_dict()
    if strategy.overrides():
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
    if isinstance(family, Absolute):
        if "windows" in strategy.overrides():
            raise _refuse(family, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if isinstance(strategy, GroupedPositions) and strategy.factor != "target":
            reason = "its groups depend on each document's length; use gp:factor=target"
            raise _refuse(family, strategy, reason)
        return None
    if not isinstance(family, Rotary):
        raise _refuse(family, strategy, "transformers has no setting for it; use save_pretrained")
    if "stock_rope" not in vars(type(strategy)):  # that of a parent is another method
        reason = "it acts on each document while it runs; use ntk, pi, yarn, or save_pretrained"
        raise _refuse(family, strategy, reason)
    rope = _rope_of(config)
    kind = rope.get("rope_type", "default")
    factor = float(rope.get("factor") or 1.0)
    # yarn would drop the base's own division of frequencies
    if not (kind == "default" or (kind == "linear" and (factor == 1 or not strategy.NEEDS_PLAIN_ROPE))):
        raise IncompatibleError(
            f"{strategy.KEY} on top of rope scaling of type {kind} has no setting in transformers; use save_pretrained."
        )
    return strategy.stock_rope(rope)


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
    elif isinstance(family, UnknownPositions):
        reason = f"its files limit inputs to {limit} tokens"
    else:
        config.max_position_embeddings = strategy.target_len
        return
    raise _refuse(family, strategy, f"{reason}; use @{limit} or less, or save_pretrained")


def _write_table(
    family: Absolute, inner: PreTrainedModel, strategy: Strategy, state: dict[str, Tensor]
) -> None:
    """Write one row for each position, as a long document looks them up."""
    if not family.has_long_rows:
        return
    key = next(name for name in state if name.endswith("position_embeddings.weight"))
    table = state[key]
    long = table[family.first_row + strategy.trained_len :]
    state[key] = torch.cat([table[: family.first_row], long])
    inner.config.max_position_embeddings = len(state[key])


def _lost_in(family: Family, strategy: Strategy) -> list[str]:
    """One sentence for each difference between the plain checkpoint and the extended model."""
    lo = strategy.trained_len
    lost = []
    if strategy.overrides() and not family.changes(lo) and _changes_short(family, strategy):
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    return lost


def _changes_short(family: Family, strategy: Strategy) -> bool:
    """Whether a plain checkpoint reads other positions for short inputs than the base. In a table, `rp` does not."""
    if not isinstance(family, Absolute):
        return True
    lo = strategy.trained_len
    rows = torch.arange(lo, dtype=torch.float32)[:, None]
    return not torch.equal(strategy.long_rows(rows)[:lo], rows)


def _refuse(family: Family, strategy: Strategy, reason: str) -> IncompatibleError:
    """The error for a plain checkpoint that would be another method."""
    return IncompatibleError(
        f"{strategy.KEY} on {family.name} positions cannot be a plain checkpoint: {reason}."
    )
