"""How positions enter a model, which strategies can change them, and the change itself.

The model type determines the first two before any weights load. Then the positions of the loaded transformer are
swapped in place: its table of learned positions, or its rotary module.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, ModelError

from .attention import ATTENTION, FusedAttention
from .long_rotary import BY_LENGTH, LongRotary
from .long_table import LongTable

#: Model types with a table of learned positions. MPNet also adds a bucketed relative bias. It is constant beyond 128
#: tokens, and we do not change it.
ABSOLUTE_TYPES = (
    "bert", "distilbert", "electra", "roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "mpnet",
)  # fmt: skip
#: Types whose positions start at `padding_idx + 1`, and skip pad tokens in a text (fairseq's rule).
FROM_PADDING = ("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "mpnet")
#: Model types with one rotary module whose layers rotate the two halves of queries and keys. Each was compared with an
#: oracle (tests/encoders/oracle_matrix); other types take `none` and `pcw`.
ROTARY_TYPES = (
    "embedding_gemma2_text", "eurobert", "gemma", "gemma3_text", "gpt_neox", "granite", "gte",
    "jina_embeddings_v3", "llama", "ministral", "ministral3", "mistral", "mixtral", "modernbert", "nemotron",
    "nomic_bert", "olmo", "olmo2", "olmo3", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss",
    "smollm3", "stablelm", "starcoder2", "ultrabert",
)  # fmt: skip


@dataclass(frozen=True)
class Positions:
    """A kind of positions."""

    name: str

    def fits(self, strategy: type[Strategy]) -> bool:
        """Return whether a strategy can change such positions, or does not need to."""
        return not strategy.MOVES or self == ROTARY or (self == ABSOLUTE and strategy.FITS_TABLES)


ABSOLUTE = Positions("absolute")
ROTARY = Positions("rotary")
UNKNOWN = Positions("unknown")


def setting(config: PretrainedConfig, name: str) -> Any:
    """Return a setting of a model's configuration; None if the model type does not have it."""
    return getattr(config, name, None)


def positions_of(config: PretrainedConfig) -> Positions:
    """Return the kind of a model's positions, known for the model types that were tested.

    Raises:
        ModelError: if the model needs its own code but has the type of another model. transformers would load that
            without a message (jina-embeddings-v2 has the type "bert").
    """
    if not type(config).__module__.startswith("transformers.models."):
        return UNKNOWN  # a model type says nothing about code outside transformers
    if setting(config, "position_embedding_type") == "alibi":
        raise ModelError(
            f"the model has the type {config.model_type!r} but alibi positions, which need the model's own code: "
            "pass trust_remote_code=True."
        )
    if config.model_type in ABSOLUTE_TYPES:
        return ABSOLUTE
    rope = setting(config, "rope_parameters") or {}
    layers = setting(config, "layer_types") or ()
    # frequencies of sliding layers alone are not ours: such layers never see more tokens than in training
    has_full = "full_attention" not in rope or "full_attention" in layers
    capped = setting(config, "attn_logit_softcapping") is not None
    if config.model_type in ROTARY_TYPES and rope and has_full and not capped:
        return ROTARY
    return UNKNOWN


def allowed_len(config: PretrainedConfig) -> int | None:
    """Return the longest input in tokens that a configuration allows; None if it does not say."""
    rows = setting(config, "max_position_embeddings") or setting(config, "n_positions")
    if not isinstance(rows, int) or rows < 1:
        return None
    if config.model_type in FROM_PADDING:
        # MPNet always uses row 1 of its table for padding
        rows -= 1 + (1 if config.model_type == "mpnet" else config.pad_token_id)
    return rows


def check_fit(config: PretrainedConfig, strategy: Strategy, base: str) -> None:
    """Raise IncompatibleError if a strategy or one of its parameters does not fit a model, named `base` in the message.

    The message lists the strategies that fit.
    """
    positions = positions_of(config)
    model = f"{base}, a model with {positions.name} positions"
    if not positions.fits(type(strategy)):
        fitting = ", ".join(key for key, other in STRATEGIES.items() if positions.fits(other))
        raise IncompatibleError(f"{strategy.KEY} does not fit {model}; these strategies fit: {fitting}.")
    settings = strategy.settings
    for parameter in fields(strategy):
        only = parameter.metadata.get("only", positions.name)
        if only != positions.name and parameter.name in settings:
            raise IncompatibleError(
                f"{strategy.KEY}'s {parameter.name} has no effect on {model}: it changes {only} ones; leave it out."
            )
    if positions == ABSOLUTE and not strategy.extends and strategy.target_len > strategy.trained_len:
        raise IncompatibleError(
            f"with the strategy none, a model with absolute positions takes at most its {strategy.trained_len} "
            f"trained positions, got a target length of {strategy.target_len} tokens: use pcw, gp, rp, pi or ntk; its "
            f"table has {allowed_len(config)} rows, and a longer trained_len reads them."
        )
    if positions == UNKNOWN and strategy.logn:
        raise IncompatibleError(
            f"attention scaling (logn=on) needs an attention that we know, got {base}; use logn=off."
        )


# ---- the change -------------------------------------------------------------------------------------------------


def install_positions(model: PreTrainedModel, strategy: Strategy) -> None:
    """Replace the positions of a private model of transformers in place.

    Raises:
        IncompatibleError: if the strategy does not fit the model's layers; `check_fit` has checked its configuration.
    """
    is_rotary = positions_of(model.config) == ROTARY
    if is_rotary:
        for name, part in model.named_modules():
            if hasattr(part, "inv_freq") or hasattr(part, "full_attention_inv_freq"):
                rotary = part if isinstance(part, LongRotary) else LongRotary(part, model.config)
                if strategy.MOVES:
                    _check_layers(model, rotary, strategy)
                model.set_submodule(name, rotary)
                break
    elif strategy.MOVES:
        _swap_table(model, strategy)
    if model.config.model_type == "mpnet":
        for module in model.modules():
            if isinstance(module, MPNetSelfAttention):
                FusedAttention.put_into(module, strategy)
    elif is_rotary or strategy.MOVES or strategy.logn:
        _swap_attention(model, strategy)


def _swap_attention(model: PreTrainedModel, strategy: Strategy) -> None:
    own = str(model.config._attn_implementation)
    inside = strategy.GROUPS or strategy.logn
    if "flash" not in own:
        model.set_attn_implementation(ATTENTION)
    elif inside and strategy.target_len > strategy.trained_len:
        raise IncompatibleError(
            f"{strategy.KEY} acts inside attention, but {type(model).__name__} was loaded with "
            f"attn_implementation={own}, which replaces ours: use pi or ntk with logn=off, or leave it out."
        )


def _swap_table(model: PreTrainedModel, strategy: Strategy) -> None:
    embeddings = model.get_submodule("embeddings")
    table = embeddings.get_submodule("position_embeddings")
    assert isinstance(table, nn.Embedding)
    first_row = 0
    if model.config.model_type in FROM_PADDING:
        assert table.padding_idx is not None
        first_row = table.padding_idx + 1
    rows = table.num_embeddings - first_row
    if rows < strategy.trained_len:
        raise IncompatibleError(
            f"the trained length must be at most the {rows} rows of the model's table, got {strategy.trained_len} "
            "tokens: give a smaller trained_len."
        )
    table.__class__ = LongTable
    assert isinstance(table, LongTable)
    table.first_row = first_row
    table.strategy = strategy
    table.n_own = table.num_embeddings
    # the model takes its ids from these buffers
    ids = torch.arange(first_row + strategy.target_len, device=table.weight.device)[None]
    for name, values in (("position_ids", ids), ("token_type_ids", torch.zeros_like(ids))):
        if hasattr(embeddings, name):
            embeddings.register_buffer(name, values, persistent=False)


def _check_layers(model: PreTrainedModel, rotary: LongRotary, strategy: Strategy) -> None:
    """Raise IncompatibleError if the model's rope scaling or sliding layers do not allow the strategy."""
    key = strategy.KEY
    base = type(model).__name__
    if strategy.NEEDS_PLAIN_ROPE and rotary.rope_type not in ("default", "linear"):
        raise IncompatibleError(
            f"{key} needs plain rotary frequencies, but {base} already has rope scaling of type {rotary.rope_type}; "
            "use ntk or pi, which work with rope scaling."
        )
    if strategy.GROUPS and rotary.rope_type in BY_LENGTH:
        raise IncompatibleError(
            f"{key} needs the same rotary frequencies at every length, but the frequencies of {base} change with "
            f"the length (type {rotary.rope_type}); use pi or ntk."
        )
    layers = [part for part in model.modules() if hasattr(part, "is_causal")]
    windows = [getattr(layer, "sliding_window", None) or 0 for layer in layers]
    widest = max(windows, default=0)
    if rotary.layer_type is not None and widest >= strategy.trained_len:
        raise IncompatibleError(
            f"{key} extends the full layers of {base} alone, so its sliding layers must see fewer tokens than the "
            f"trained length of {strategy.trained_len}, got {widest}; use pcw, or give the trained_len of the model "
            "itself."
        )
    slide = {0 < window < strategy.trained_len for window in windows}
    if rotary.layer_type is None and not strategy.GROUPS and len(slide) == 2:
        raise IncompatibleError(
            f"{key} would also change the sliding layers of {base}, because they share one rotary module with the "
            "layers of full attention; use pcw (on some of these models se works too)."
        )
