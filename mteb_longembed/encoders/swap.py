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

from .attention import ATTENTION, current
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
#: Rope types whose frequencies depend on the input's length in transformers.
_BY_LENGTH = ("dynamic", "longrope")


@dataclass(frozen=True)
class Positions:
    """The way in which positions enter models, and the actions of strategies that it can serve."""

    name: str
    actions: frozenset[str]

    def fits(self, strategy: type[Strategy]) -> bool:
        """Whether both share an action, or the strategy has none."""
        return not strategy.overrides() or bool(self.actions & strategy.overrides())


ABSOLUTE = Positions("absolute", frozenset({"windows", "position_ids", "long_rows"}))
ROTARY = Positions("rotary", frozenset({"windows", "position_ids", "inv_freq", "attention"}))
UNKNOWN = Positions("unknown", frozenset({"windows"}))


def positions_of(config: PretrainedConfig) -> Positions:
    """How positions enter a model: known for the model types that were tested.

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
    """The longest input in tokens that a configuration allows. None if it does not say."""
    rows = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if not isinstance(rows, int) or rows < 1:
        return None
    if config.model_type in FROM_PADDING:
        # MPNet's table has row 1 for padding whatever the configuration says
        rows -= 1 + (1 if config.model_type == "mpnet" else config.pad_token_id)
    return rows


def check_fit(config: PretrainedConfig, kind: type[Strategy], base: str) -> None:
    """Raise IncompatibleError if a strategy does not fit a model. The message says which strategies do."""
    positions = positions_of(config)
    if positions.fits(kind):
        return
    fitting = ", ".join(key for key, other in STRATEGIES.items() if positions.fits(other))
    raise IncompatibleError(
        f"{kind.KEY} does not fit {base}, a model with {positions.name} positions: {kind.KEY} changes "
        f"{' or '.join(sorted(kind.overrides()))}, and in such models we can change only "
        f"{', '.join(sorted(positions.actions))}; these strategies fit: {fitting}."
    )


def check_parameters(config: PretrainedConfig, strategy: Strategy, base: str) -> None:
    """Raise IncompatibleError for a parameter without an effect on a model, or a target that it cannot reach."""
    positions = positions_of(config)
    given = strategy.settings()
    for parameter in fields(strategy):
        action = parameter.metadata.get("acts_on")
        if action and action not in positions.actions and parameter.name in given:
            raise IncompatibleError(
                f"{strategy.KEY}'s {parameter.name} has no effect on {base}, a model with {positions.name} positions: "
                f"it changes {action}; leave it out."
            )
    if positions is ABSOLUTE and not strategy.overrides() and strategy.target_len > strategy.trained_len:
        raise IncompatibleError(
            f"with the strategy {strategy.KEY}, a model with absolute positions takes at most its "
            f"{strategy.trained_len} trained positions, got a target length of {strategy.target_len} tokens: use pcw, "
            f"gp, rp, pi or ntk; its table has {allowed_len(config)} rows, and a longer trained_len reads them."
        )


def swap(model: PreTrainedModel, strategy: Strategy, *, has_long_rows: bool = False) -> None:
    """Swap the positions of a private model in place.

    Args:
        model: of transformers.
        strategy: with all lengths and parameters.
        has_long_rows: as in `LongTable`.

    Raises:
        IncompatibleError, ModelError: if the strategy does not fit the model.
    """
    check_fit(model.config, type(strategy), type(model).__name__)
    positions = positions_of(model.config)
    acts = strategy.overrides() & positions.actions - {"windows"}
    if positions is ABSOLUTE:
        fuse_attention(model, strategy)
        if acts:
            _swap_table(model, strategy, has_long_rows=has_long_rows)
        if not (acts or strategy.logn) or model.config.model_type == "mpnet":
            return
    elif positions is ROTARY:
        _swap_rotary(model, strategy)
    elif strategy.logn:
        raise IncompatibleError(
            f"attention scaling (logn=on) needs an attention that we know, got {type(model).__name__}; use logn=off."
        )
    else:
        return
    own = str(model.config._attn_implementation)
    if "flash" not in own:
        model.set_attn_implementation(ATTENTION)
    elif "attention" in acts or (strategy.logn and strategy.target_len > strategy.trained_len):
        raise IncompatibleError(
            f"{strategy.KEY} acts inside attention, but {type(model).__name__} was loaded with "
            f"attn_implementation={own}, which replaces ours: use pi or ntk with logn=off, or leave it out."
        )


# ---- learned tables -------------------------------------------------------------------------------------------


class LongTable(nn.Embedding):
    """The base's table of positions, and the rows that documents read which the strategy changes.

    Those rows are computed from the base's, whose training they follow, and not saved; but if somebody trained them
    (`tune`), or the base has them already, they stand behind the base's rows in its own weight.

    Args:
        table: of the base.
        first_row: the row of position 0; those before it are for padding.
        strategy: gives the rows of long documents, or the places in the trained range.
        has_long_rows: whether the last rows of the table are those of long documents.
    """

    def __init__(
        self, table: nn.Embedding, first_row: int, strategy: Strategy, *, has_long_rows: bool = False
    ) -> None:
        weight = table.weight.detach()
        rows, width = weight.shape
        super().__init__(rows, width, table.padding_idx, _weight=weight)
        # transformers' mark of weights that its files had
        self.weight._is_hf_initialized = getattr(table.weight, "_is_hf_initialized", False)  # type: ignore[attr-defined]
        self.first_row = first_row
        self.strategy = strategy
        self.n_own = len(weight)
        if has_long_rows:
            self.n_own -= strategy.target_len
        #: Rows that were computed, and the state of the weight then.
        self._computed: tuple[object, Tensor] | None = None

    @property
    def long(self) -> Tensor:
        """`[Lt, d]` the rows of long documents."""
        weight = self.weight
        if self.n_own < len(weight):
            return weight[self.n_own :]
        if torch.is_grad_enabled() and weight.requires_grad:
            return self._rows()
        state = weight.data_ptr(), weight._version
        if self._computed is None or self._computed[0] != state:
            with torch.inference_mode(mode=False), torch.no_grad():
                self._computed = state, self._rows()
        return self._computed[1]

    def _rows(self) -> Tensor:
        trained = self.weight[self.first_row : self.first_row + self.strategy.trained_len]
        return self.strategy.long_rows(trained.float().cpu()).to(self.weight)

    def keep(self, long: Tensor) -> None:
        """Put these rows of long documents `[Lt, d]` behind the base's, as its own."""
        weight = torch.cat([self.weight.detach()[: self.n_own], long])
        self.weight = nn.Parameter(weight)
        self.num_embeddings = len(weight)

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of tokens at the model's own positions `ids` `[b, n]` or `[1, n]`: `[b, n, d]`."""
        batch = current()
        strategy = batch.strategy
        n = batch.on_device("n", lambda: batch.n[:, None])
        p = ids - self.first_row
        changed = batch.on_device("changed", lambda: strategy.changes(batch.n, ABSOLUTE.actions)[:, None])
        if batch.offsets is not None:
            p = torch.where(ids < self.first_row, p, p + batch.offsets[:, None])
            changed = changed | (batch.offsets[:, None] > 0)
        # padding is masked everywhere, so any valid row is right; rows before the first one stay as they are
        is_long = changed & (p >= 0)
        if strategy.depends_on_length:
            moved = strategy.position_ids(p, n).long()
            rows = torch.where(is_long, moved, p) + self.first_row
            return super().forward(rows.clamp(max=self.n_own - 1))
        own = super().forward((p + self.first_row).clamp(0, self.n_own - 1).expand(len(n), -1))
        if not bool(is_long.any()):
            return own
        long = embedding(p.clamp(0, strategy.target_len - 1), self.long)
        return torch.where(is_long[..., None], long, own)


def _swap_table(model: PreTrainedModel, strategy: Strategy, *, has_long_rows: bool) -> None:
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
    embeddings.position_embeddings = LongTable(table, first_row, strategy, has_long_rows=has_long_rows)
    # the model takes its ids from these buffers
    ids = torch.arange(first_row + strategy.target_len, device=table.weight.device)[None]
    for name, values in (("position_ids", ids), ("token_type_ids", torch.zeros_like(ids))):
        if hasattr(embeddings, name):
            embeddings.register_buffer(name, values, persistent=False)


# ---- rotary modules -------------------------------------------------------------------------------------------


class LongRotary(nn.Module):
    """A model's rotary module, with the strategy's positions and frequencies for documents that it changes.

    Positions are mapped in here, and the model never sees the mapped positions. If position ids fall or repeat, a
    causal model thinks that several documents are packed into one input, and masks the first from the last. The model's
    own module, `base`, still does everything that the strategy does not change.
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
        # a base that has encoded a long input may still have the frequencies of its length: two tokens reset them
        device = getattr(base, f"{prefix}inv_freq").device
        self._own(torch.zeros(1, 2, 1, device=device), torch.tensor([[0, 1]], device=device), self.layer_type)
        # no buffer: model.bfloat16() must not round it
        self.inv_freq: Tensor = getattr(base, f"{prefix}inv_freq").detach().float().cpu().clone()
        self.scaling = float(getattr(base, f"{prefix}attention_scaling", 1.0))

    def _own(self, x: Tensor, position_ids: Tensor, layer_type: str | None) -> CosSin:
        if layer_type is None:
            return self.base(x, position_ids)
        return self.base(x, position_ids, layer_type)

    def frequencies(self, strategy: Strategy, lengths: Tensor) -> Tensor:
        """The base's own inverse frequencies for these lengths: `[d/2]` or `[b, d/2]`, float32, on the host."""
        if self.rope_type not in _BY_LENGTH:
            return self.inv_freq
        # A strategy brings documents into the trained range, so they get the frequencies of the trained length.
        limit = lengths.max()
        if strategy.overrides():
            limit = torch.tensor(strategy.trained_len)
        init = ROPE_INIT_FUNCTIONS[self.rope_type]
        rows = [
            init(self.config, torch.device("cpu"), seq_len=int(n), layer_type=self.layer_type)[0]
            for n in lengths.clamp(max=limit).tolist()
        ]
        return torch.stack(rows).float()

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> CosSin:
        """Cosines and sines `[b, n, r]` for the documents of x."""
        batch = current()
        strategy = batch.strategy
        n = batch.n
        acts = strategy.overrides() & ROTARY.actions - {"windows"}
        changed = strategy.changes(n, ROTARY.actions) & bool(acts)
        is_plain = self.rope_type not in _BY_LENGTH and not bool(changed.any())
        if layer_type != self.layer_type or is_plain:
            return self._own(x, position_ids, layer_type)
        changed = changed[:, None]
        p = position_ids.expand(len(n), -1)
        inv_freq = self.frequencies(strategy, n).expand(len(n), -1)
        new = torch.stack([strategy.inv_freq(row, self.theta) for row in inv_freq])
        inv_freq = new.where(changed, inv_freq)
        size = torch.full((len(n), 1), self.scaling)
        size = (size * strategy.rotation_factor()).where(changed, size)
        moved = strategy.position_ids(p, batch.on_device("n", lambda: batch.n[:, None])).float()
        mapped = moved.where(to_device(changed, x.device), p.float())
        angles = mapped[..., None] * to_device(inv_freq, x.device)[:, None]
        angles = torch.cat([angles, angles], -1)
        factor = to_device(size, x.device)[..., None]
        return (angles.cos() * factor).to(x.dtype), (angles.sin() * factor).to(x.dtype)


def _swap_rotary(model: PreTrainedModel, strategy: Strategy) -> None:
    for name, part in model.named_modules():
        if hasattr(part, "inv_freq") or hasattr(part, "full_attention_inv_freq"):
            rotary = part if isinstance(part, LongRotary) else LongRotary(part, model.config)
            _check_layers(model, rotary, strategy)
            model.set_submodule(name, rotary)
            return


def _check_layers(model: PreTrainedModel, rotary: LongRotary, strategy: Strategy) -> None:
    """Raise IncompatibleError for what rope scaling or sliding layers of a model do not allow."""
    key = strategy.KEY
    overrides = strategy.overrides()
    if strategy.NEEDS_PLAIN_ROPE and rotary.rope_type not in ("default", "linear"):
        raise IncompatibleError(
            f"{key} needs plain rotary frequencies, but {type(model).__name__} already has rope scaling of "
            f"type {rotary.rope_type}; use ntk or pi, which work with rope scaling."
        )
    if "attention" in overrides and rotary.rope_type in _BY_LENGTH:
        raise IncompatibleError(
            f"{key} needs the same rotary frequencies at every length, but those of {type(model).__name__} "
            f"change with the length (type {rotary.rope_type}); use pi or ntk."
        )
    layers = [part for part in model.modules() if hasattr(part, "is_causal")]
    windows = [getattr(layer, "sliding_window", None) for layer in layers]
    sliding = {w is not None and w < strategy.trained_len for w in windows}
    widest = max((w for w in windows if w is not None), default=0)
    extends_full = rotary.layer_type is not None and overrides & {"position_ids", "inv_freq", "attention"}
    if extends_full and widest >= strategy.trained_len:
        raise IncompatibleError(
            f"{key} extends the full layers of {type(model).__name__} alone, so its sliding layers must see "
            f"fewer tokens than the trained length of {strategy.trained_len}, got {widest}; use pcw, or "
            "give the trained_len of the model itself."
        )
    if rotary.layer_type is None and len(sliding) == 2 and overrides & {"position_ids", "inv_freq"}:
        raise IncompatibleError(
            f"{key} would also change the sliding layers of {type(model).__name__}, because they share one "
            "rotary module with the layers of full attention; use pcw (on some of these models se works too)."
        )


# ---- MPNet ----------------------------------------------------------------------------------------------------


class FusedAttention(MPNetSelfAttention):
    """MPNet's attention by torch's own function, with scaled queries; its relative bias is part of the mask.

    transformers has only the plain form, with all scores in memory. Numbers are the same up to rounding.
    """

    strategy: Strategy

    def forward(  # type: ignore[override]  # a layer always has a bias
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        position_bias: Tensor,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """The tokens of documents, `[b, n, d]`, from those of the layer before."""
        scales = self.strategy.logn and current().longest > self.strategy.trained_len
        if output_attentions and not scales:  # torch's function does not give them
            return super().forward(hidden_states, attention_mask, position_bias, output_attentions)  # type: ignore[no-untyped-call]
        # the bias is the same for all documents; without padding there is no mask
        added = position_bias[:1].expand_as(position_bias)
        if attention_mask is not None:
            added = position_bias + attention_mask
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, self.attention_head_size)
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        if scales:
            batch = current()
            make = lambda: self.strategy.query_factor(batch.n)[:, None, None, None]  # noqa: E731
            q = (q * batch.on_device("query factor", make)).to(q.dtype)
        dropped = self.dropout.p if self.training else 0.0
        heads = scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropped)
        return (self.o(heads.transpose(1, 2).flatten(2)),)


def fuse_attention(model: nn.Module, strategy: Strategy) -> None:
    """Give the layers of a private MPNet this attention; in other models nothing changes."""
    for module in model.modules():
        if isinstance(module, MPNetSelfAttention):
            module.__class__ = FusedAttention
            cast("Any", module).strategy = strategy
