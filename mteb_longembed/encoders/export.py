"""Export a model as a plain checkpoint that old and new readers open, if transformers has settings for its strategy."""

import copy
from pathlib import Path

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn
from transformers import PretrainedConfig

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.files import Json, check_empty, whole_folder
from mteb_longembed.names import Settings

from .backbone import LongTransformer, check_merged, route_of
from .build import settings_of
from .card import card_of, set_card
from .families import STOCK_CLASSES, family_of
from .load import load
from .long_rotary import LongRotary
from .long_table import LongTable
from .method import SEVERAL, Method
from .old_readers import rewrite_for_old_readers
from .pooling import Pooling
from .positions import ABSOLUTE, ROTARY, UNKNOWN, Positions, positions_of, setting
from .weights import TokenWeights

#: How an exported model with weights and a map differs.
_PROMPTS = (
    "texts with a long or new prompt get slightly other vectors: stock modules count the weights of prompts."
)


def export(
    model: str | SentenceTransformer | MultiVectorEncoder | SparseEncoder,
    folder: str | Path,
    *,
    trust_remote_code: bool = False,
) -> list[str]:
    """Write a model as a plain sentence-transformers folder, which old versions and servers open too.

    Args:
        model: a name, a folder that we saved, or a loaded model: an extended one, one that `adapt` made, or any
            `SentenceTransformer`. A loaded model is not changed. A late-interaction or sparse model gets a folder of
            its class, which versions of sentence-transformers with that class open.
        folder: the folder to write; it must be empty or not exist.
        trust_remote_code: run the base repository's own model code.

    Returns:
        One sentence for each difference between the plain checkpoint and the model, which the card of an extended model
        has too, and for each feature that old versions lack.

    Raises:
        IncompatibleError: if a plain checkpoint cannot express the model.
        InputError: if the folder is not empty.
        StorageError: if the disk refuses a file.
    """
    folder = Path(folder)
    check_empty("the folder to export to", folder)
    source: BaseModel
    if isinstance(model, BaseModel):
        source = copy.deepcopy(model)
    else:
        Method.parse_model(str(model)).check_plain()
        source = load(model, device="cpu", trust_remote_code=trust_remote_code)
    if family_of(source) != "dense":
        check_merged(source)
        with whole_folder(folder) as unfinished:
            return _write_class(source, unfinished)
    if not isinstance(source, SentenceTransformer):
        raise IncompatibleError(SEVERAL)
    check_merged(source)
    if not isinstance(source[0], Transformer):
        raise IncompatibleError(
            f"export writes a Transformer and what follows it, got a {type(source[0]).__name__}: use save_pretrained."
        )
    with whole_folder(folder) as unfinished:
        return _write_plain(source, unfinished)


def _write_plain(source: SentenceTransformer, folder: Path) -> list[str]:
    """Write a model, which is changed, into a folder. Return what `export` returns."""
    first = source[0]
    pooling = Pooling.of(source)
    lost = [] if pooling.weights is None else [_PROMPTS]
    length: int | None = source.max_seq_length
    card: str | None = source._model_card_text
    is_ours = isinstance(first, LongTransformer)
    if isinstance(first, LongTransformer):
        length = first.strategy.target_len
        lost += _lost_in(first.config, first.strategy)
        card = card_of(source, folder.name, lost=lost)
        _make_plain(first)
    modules = [first, *pooling.modules()]
    if isinstance(pooling.weights, TokenWeights):
        modules[1] = pooling.weights.stock()
    plain = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
    if not is_ours:
        plain.model_card_data = source.model_card_data
    set_card(plain, card)
    plain.save_pretrained(str(folder))
    return lost + rewrite_for_old_readers(folder, length)


def _write_class(source: BaseModel, folder: Path) -> list[str]:
    """Write a late-interaction or sparse model, which is changed. Return what `export` returns."""
    first = route_of(source)[0]
    if not isinstance(first, LongTransformer):
        raise IncompatibleError(
            f"export writes extended models, got a {type(source).__name__} that is not extended: use save_pretrained."
        )
    lost = _lost_in(first.config, first.strategy)
    card = card_of(source, folder.name, lost=lost)
    _make_plain(first)
    plain = STOCK_CLASSES[family_of(source)](modules=list(source), device="cpu", **settings_of(source))
    set_card(plain, card)
    plain.save_pretrained(str(folder))
    return lost


# ---- the strategy in weights and settings -----------------------------------------------------------------------


def _make_plain(first: LongTransformer) -> None:
    """Fold the strategy of a backbone into its weights and settings, and make it a stock Transformer."""
    positions = positions_of(first.config)
    strategy: Strategy = first.strategy
    inner = first.model
    config = inner.config
    if strategy.extends:
        rope = _plain_rope(positions, strategy, config)
        if rope is not None:
            if "full_attention" in config.rope_parameters:
                rope = {**config.rope_parameters, "full_attention": rope}
            config.rope_parameters = rope
            # a window that had no effect in training has none on longer documents
            window = setting(config, "sliding_window")
            if window is not None and strategy.trained_len <= window < strategy.target_len:
                config.sliding_window = strategy.target_len
    if positions is not ABSOLUTE:
        _take_longer_inputs(positions, config, strategy)
    for name, part in list(inner.named_modules()):
        if isinstance(part, LongRotary):
            inner.set_submodule(name, part.base)
        elif isinstance(part, LongTable):
            rows = torch.cat([part.weight.detach()[: part.first_row], part.long.detach()])
            config.max_position_embeddings = len(rows)
            table = nn.Embedding(len(rows), rows.shape[1], part.padding_idx, _weight=rows)
            inner.set_submodule(name, table)
    first.text_tokenizer.model_max_length = strategy.target_len
    first.max_seq_length = strategy.target_len
    first.__class__ = Transformer


def _plain_rope(positions: Positions, strategy: Strategy, config: PretrainedConfig) -> Settings | None:
    """Return the rope parameters of a strategy, None on absolute positions.

    Raises:
        IncompatibleError: if stock parameters cannot express the strategy.
    """
    if positions is ABSOLUTE:
        if strategy.CUTS:
            raise _refuse(positions, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if strategy.depends_on_length:
            reason = "its groups depend on each document's length; use gp:factor=target"
            raise _refuse(positions, strategy, reason)
        return None
    if positions is UNKNOWN:
        raise _refuse(positions, strategy, "transformers has no setting for it; use save_pretrained")
    if "stock_rope" not in vars(type(strategy)):  # an inherited one is of another strategy
        reason = "it acts on each document while it runs; use ntk, pi, yarn, or save_pretrained"
        raise _refuse(positions, strategy, reason)
    rope = _rope_of(config)
    rope_type = rope.get("rope_type", "default")
    factor = float(rope.get("factor") or 1.0)
    # yarn would drop the base's own division of frequencies
    if not (
        rope_type == "default" or (rope_type == "linear" and (factor == 1 or not strategy.NEEDS_PLAIN_ROPE))
    ):
        raise IncompatibleError(
            f"{strategy.KEY} on top of rope scaling of type {rope_type} has no setting in transformers; use "
            "save_pretrained."
        )
    return strategy.stock_rope(rope)


def _rope_of(config: PretrainedConfig) -> Json:
    """Return the rope parameters of the layers with full attention."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _take_longer_inputs(positions: Positions, config: PretrainedConfig, strategy: Strategy) -> None:
    """Set the longest input to the target length: sentence-transformers truncates inputs at this setting."""
    limit = setting(config, "max_position_embeddings")
    if limit is None or limit < 1 or limit >= strategy.target_len:
        return
    rope: Json = {}
    if positions is ROTARY:
        rope = _rope_of(config)
    rope_type = rope.get("rope_type", "default")
    if rope_type == "dynamic" or (rope_type in ("yarn", "longrope") and rope.get("factor") is None):
        reason = f"its rope scaling of type {rope_type} is made for at most {limit} tokens"
    elif positions is UNKNOWN:
        reason = f"its files limit inputs to {limit} tokens"
    else:
        config.max_position_embeddings = strategy.target_len
        return
    raise _refuse(positions, strategy, f"{reason}; use @{limit} or less, or save_pretrained")


def _lost_in(config: PretrainedConfig, strategy: Strategy) -> list[str]:
    """Describe each difference between the plain checkpoint and the extended model in one sentence."""
    positions = positions_of(config)
    lo = strategy.trained_len
    lost = []
    if strategy.extends and not strategy.changes(lo, rotary=positions is ROTARY):
        rows = torch.arange(lo, dtype=torch.float32)[:, None]
        # in a table, `rp` leaves the first rows as they are
        if positions is not ABSOLUTE or not torch.equal(strategy.long_rows(rows)[:lo], rows):
            lost.append(
                f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
                "gives them the base model's embedding."
            )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    if positions is ROTARY and _rope_of(config).get("rope_type") == "longrope":
        lost.append(
            "frequencies follow the longest input of a batch: transformers chooses one set for all, the extended model "
            "one for each document."
        )
    return lost


def _refuse(positions: Positions, strategy: Strategy, reason: str) -> IncompatibleError:
    """Return the error for a strategy that a plain checkpoint cannot apply."""
    return IncompatibleError(
        f"{strategy.KEY} on {positions.name} positions cannot be a plain checkpoint: {reason}."
    )
