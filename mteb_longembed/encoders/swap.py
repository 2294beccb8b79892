"""The positions of a loaded transformer are swapped in place: tables of learned positions, and rotary modules."""

from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, ModelError

from .attention import ATTENTION, current, scaled_queries
from .identity import BY_LENGTH
from .self_extend import CosSin, to_device

#: Model types with a table of learned positions. MPNet also adds a bucketed relative bias. It is constant beyond 128
#: tokens, and we do not change it.
ABSOLUTE_TYPES = (
    "bert", "distilbert", "electra", "roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "mpnet",
)  # fmt: skip
#: Types whose positions start at `padding_idx + 1`, and in which pad tokens in a text do not count (fairseq's rule).
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
    """The way in which positions enter models."""

    name: str

    def fits(self, kind: type[Strategy]) -> bool:
        """Return whether a strategy can change such positions, or need not."""
        return not kind.MOVES or self == ROTARY or (self == ABSOLUTE and kind.FITS_TABLES)


ABSOLUTE = Positions("absolute")
ROTARY = Positions("rotary")
UNKNOWN = Positions("unknown")


def positions_of(config: PretrainedConfig) -> Positions:
    """Return how positions enter a model: known for the model types that were tested.

    Raises:
        ModelError: if the model needs its own code but has the type of another model. transformers would load that
            without a message (jina-embeddings-v2 has the type "bert").
    """
    if not type(config).__module__.startswith("transformers.models."):
        return UNKNOWN  # the type says nothing about code that is not part of transformers
    if getattr(config, "position_embedding_type", None) == "alibi":
        raise ModelError(
            f"the model has the type {config.model_type!r} but alibi positions, which need the model's own code: "
            "pass trust_remote_code=True."
        )
    if config.model_type in ABSOLUTE_TYPES:
        return ABSOLUTE
    rope = getattr(config, "rope_parameters", None) or {}
    layers = getattr(config, "layer_types", None) or ()
    # frequencies of sliding layers alone are not ours: such layers never see more tokens than in training
    has_full = "full_attention" not in rope or "full_attention" in layers
    capped = getattr(config, "attn_logit_softcapping", None) is not None
    if config.model_type in ROTARY_TYPES and rope and has_full and not capped:
        return ROTARY
    return UNKNOWN


def allowed_len(config: PretrainedConfig) -> int | None:
    """Return the longest input in tokens that a configuration allows. None if it does not say."""
    rows = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if not isinstance(rows, int) or rows < 1:
        return None
    if config.model_type in FROM_PADDING:
        # MPNet's table has row 1 for padding whatever the configuration says
        rows -= 1 + (1 if config.model_type == "mpnet" else config.pad_token_id)
    return rows


def check_fit(config: PretrainedConfig, strategy: Strategy, base: str) -> None:
    """Raise IncompatibleError if a strategy or one of its parameters does not fit a model, named `base` in the message.

    The message says which strategies do.
    """
    positions = positions_of(config)
    model = f"{base}, a model with {positions.name} positions"
    if not positions.fits(type(strategy)):
        fitting = ", ".join(key for key, other in STRATEGIES.items() if positions.fits(other))
        raise IncompatibleError(f"{strategy.KEY} does not fit {model}; these strategies fit: {fitting}.")
    given = strategy.settings
    for parameter in fields(strategy):
        only = parameter.metadata.get("only", positions.name)
        if only != positions.name and parameter.name in given:
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


def swap(model: PreTrainedModel, strategy: Strategy) -> None:
    """Swap the positions of a private model of transformers in place.

    Raises:
        IncompatibleError: if the strategy does not fit the model's layers; `check_fit` has asked its configuration.
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
                module.__class__ = FusedAttention
                cast("Any", module).strategy = strategy
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


# ---- learned tables -------------------------------------------------------------------------------------------


class LongTable(nn.Embedding):
    """The base's table of positions, and the rows that documents read which the strategy changes.

    Those rows are computed from the base's, whose training they follow, and not saved; but if somebody trained them
    (`tune`), or the base has them already (`keep`), they stand behind the base's rows in its own weight.
    `first_row` is the row of position 0; those before it are for padding.
    """

    first_row: int
    strategy: Strategy
    #: Rows of the base in its weight.
    n_own: int
    #: The storage and version of the weight when rows were computed; the weight, so that no other gets its storage; and
    #: the rows.
    _computed: tuple[object, Tensor, Tensor] | None = None

    @property
    def has_long_rows(self) -> bool:
        """Whether the rows of long documents are its own, because they cannot be computed from the base's."""
        return self.n_own < len(self.weight)

    @property
    def long(self) -> Tensor:
        """`[Lt, d]` the rows of long documents."""
        weight = self.weight
        if self.has_long_rows:
            return weight[self.n_own :]
        if torch.is_grad_enabled() and weight.requires_grad:
            return self._rows()
        state = weight.untyped_storage()._cdata, weight._version
        if self._computed is None or self._computed[0] != state:
            with torch.inference_mode(mode=False), torch.no_grad():
                self._computed = state, weight.detach(), self._rows()
        return self._computed[2]

    def _rows(self) -> Tensor:
        trained = self.weight[self.first_row :][: self.strategy.trained_len]
        return self.strategy.long_rows(trained.float().cpu()).to(self.weight)

    def keep(self, long: Tensor, step: int = 1) -> None:
        """Put these rows of long documents `[Lt, d]` behind the base's, of which each `step`-th stays, as its own."""
        own = self.weight.detach()[: self.n_own : step]
        self.n_own = len(own)
        self.weight = nn.Parameter(torch.cat([own, long]))
        self.num_embeddings = len(self.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of tokens at the model's own positions `ids` `[b, n]` or `[1, n]`: `[b, n, d]`."""
        batch = current()
        strategy = batch.strategy
        n = batch.on_device("n", lambda: batch.n[:, None])
        changed = batch.on_device("changed", lambda: strategy.changes(batch.n, rotary=False)[:, None])
        p = ids - self.first_row
        if batch.offsets is not None:
            p = torch.where(p < 0, p, p + batch.offsets[:, None])
            changed = changed | (batch.offsets[:, None] > 0)
        # padding is masked everywhere, so any valid row is right; rows before the first one stay as they are
        is_long = changed & (p >= 0)
        if strategy.depends_on_length:
            p = torch.where(is_long, strategy.position_ids(p, n).long(), p)
        own = super().forward((p + self.first_row).clamp(0, self.n_own - 1).expand(len(n), -1))
        if strategy.depends_on_length or not bool(is_long.any()):
            return own
        long = embedding(p.clamp(0, strategy.target_len - 1), self.long)
        return torch.where(is_long[..., None], long, own)


def _swap_table(model: PreTrainedModel, strategy: Strategy) -> None:
    embeddings: Any = model.embeddings
    table = embeddings.position_embeddings
    first_row = 0
    if model.config.model_type in FROM_PADDING:
        first_row = embeddings.padding_idx + 1
    rows = table.num_embeddings - first_row
    if rows < strategy.trained_len:
        raise IncompatibleError(
            f"the trained length must be at most the {rows} rows of the model's table, got {strategy.trained_len} "
            "tokens: give a smaller trained_len."
        )
    table.__class__ = LongTable
    table.first_row = first_row
    table.strategy = strategy
    table.n_own = table.num_embeddings
    # the model takes its ids from these buffers
    ids = torch.arange(first_row + strategy.target_len, device=table.weight.device)[None]
    for name, values in (("position_ids", ids), ("token_type_ids", torch.zeros_like(ids))):
        if hasattr(embeddings, name):
            embeddings.register_buffer(name, values, persistent=False)


# ---- rotary modules -------------------------------------------------------------------------------------------


class LongRotary(nn.Module):
    """A model's rotary module, with the strategy's positions and frequencies for documents that it changes.

    Positions are mapped in here, and the model never sees the mapped positions: if position ids fall or repeat, a
    causal model thinks that several documents are packed into one input. The model's own module, `base`, still does
    everything that the strategy does not change.
    """

    def __init__(self, base: nn.Module, config: PretrainedConfig) -> None:
        super().__init__()
        self.base = base
        self.config = config
        #: the type of the layers that are extended; sliding layers never see more tokens than in training
        self.layer_type: str | None = None
        prefix = ""
        rope = config.rope_parameters
        if getattr(base, "layer_types", None) is not None:
            self.layer_type = "full_attention"
            prefix = "full_attention_"
            rope = rope["full_attention"]
        self.rope_type: str = rope.get("rope_type", "default")
        self.theta = float(rope.get("rope_theta", 10_000.0))
        # no buffer: model.bfloat16() must not round it
        self.inv_freq: Tensor = getattr(base, f"{prefix}inv_freq").detach().float().cpu().clone()
        self.scaling = float(getattr(base, f"{prefix}attention_scaling", 1.0))

    def frequencies(self, strategy: Strategy, lengths: Tensor) -> Tensor:
        """Return the base's own inverse frequencies for these lengths: `[d/2]` or `[b, d/2]`, float32, on the host."""
        if self.rope_type not in BY_LENGTH:
            return self.inv_freq
        if strategy.MOVES:  # it brings documents into the trained range
            lengths = lengths.clamp(max=strategy.trained_len)
        init = ROPE_INIT_FUNCTIONS[self.rope_type]
        device = torch.device("cpu")
        rows = [init(self.config, device, int(n), layer_type=self.layer_type)[0] for n in lengths]
        return torch.stack(rows).float()

    def forward(self, x: Tensor, position_ids: Tensor, *layer_type: str) -> CosSin:
        """Return cosines and sines `[b, n, r]` for the documents of x."""
        batch = current()
        batch.inv_freq = self.inv_freq
        strategy = batch.strategy
        n = batch.n[:, None]
        changed = strategy.changes(n)
        is_plain = self.rope_type not in BY_LENGTH and not bool(changed.any())
        if is_plain or layer_type not in ((), (self.layer_type,)):
            return self.base(x, position_ids, *layer_type)
        p = position_ids.expand(len(n), -1)
        own = self.frequencies(strategy, batch.n).expand(len(n), -1)
        new = torch.stack([strategy.inv_freq(row, self.theta) for row in own])
        inv_freq = to_device(new.where(changed, own), x.device)
        size = torch.tensor(self.scaling).expand(len(n), 1)
        size = to_device((size * strategy.rotation_factor()).where(changed, size), x.device)[..., None]
        moved = strategy.position_ids(p, to_device(n, x.device)).float()
        mapped = moved.where(to_device(changed, x.device), p.float())
        angles = mapped[..., None] * inv_freq[:, None]
        angles = torch.cat([angles, angles], -1)
        return (angles.cos() * size).to(x.dtype), (angles.sin() * size).to(x.dtype)


def _check_layers(model: PreTrainedModel, rotary: LongRotary, strategy: Strategy) -> None:
    """Raise IncompatibleError for what rope scaling or sliding layers of a model do not allow."""
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


# ---- MPNet ----------------------------------------------------------------------------------------------------


class FusedAttention(MPNetSelfAttention):
    """MPNet's attention by torch's own function, with scaled queries; its relative bias is part of the mask.

    transformers has only the plain form, with all scores in memory. Numbers are the same up to rounding.
    """

    strategy: Strategy

    def forward(  # type: ignore[override]  # a layer always has a bias
        self, hidden_states: Tensor, attention_mask: Tensor | None, position_bias: Tensor, **kwargs: Any
    ) -> tuple[Tensor]:
        """Return the tokens of documents, `[b, n, d]`, given the previous layer's."""
        # the bias is the same for all documents; without padding there is no mask
        added = position_bias[:1].expand_as(position_bias)
        if attention_mask is not None:
            added = position_bias + attention_mask
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.strategy.logn:
            q = scaled_queries(q, current(), causal=False)
        dropped = self.dropout.p if self.training else 0.0
        heads = scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropped)
        return (self.o(heads.transpose(1, 2).flatten(2)),)
