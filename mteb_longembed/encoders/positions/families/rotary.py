"""Rotary positions: queries and keys are rotated by angles that grow with the position."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mteb_longembed.encoders.features import to_device
from mteb_longembed.encoders.positions.attention.lengths import current
from mteb_longembed.encoders.positions.attention.rotation import CosSin, Rotation
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.errors import IncompatibleError, ModelError

from .attention_functions import LayerCall, LongAttention, install, install_and_probe
from .family import Family

#: Rope types whose frequencies depend on the input's length in transformers.
_BY_LENGTH = ("dynamic", "longrope")
#: The actions of a strategy that change positions inside a model.
_ACTS = frozenset({"position_ids", "inv_freq", "attention"})
#: Kinds of layers that rotary positions enter in a way that we know.
_ATTENDING = {"full_attention", "sliding_attention"}
#: Configurations inside one that describe its layers, and no further model (DBRX).
_PARTS_OF_LAYERS = {"attn_config", "ffn_config"}
#: Model types whose attention we cannot reach although they have rotary positions, and what stands in the way.
_OUT_OF_REACH = frozenset((
    "beam",  # full layers without positions
    "deepseek_v2", "llama4_text",  # angles as complex numbers
    "diffllama",  # two attentions in a layer
    "doge", "falcon", "gpt_neox_japanese",  # attention of their own
    "flint", "gpt_oss", "mimo_v2_flash",  # attention sinks
    "granite_swa", "granitemoe_swa", "molmo2_text",  # two rotary modules
    "openai_privacy_filter",  # angles in an order of its own
))  # fmt: skip


class MappedRotary(nn.Module):
    """A model's rotary module with the strategy's positions and frequencies for each document.

    Positions are mapped in here, and the model never sees the mapped positions. If position ids fall or repeat, a
    causal model thinks that several documents are packed into one input, and masks the first from the last. The model's
    own module, `base`, still does everything that the strategy does not change.
    """

    def __init__(self, base: nn.Module, strategy: Strategy, config: PretrainedConfig) -> None:
        super().__init__()
        self.base = base
        self.strategy = strategy
        self.config = config
        #: the type of the layers that are extended; sliding layers never see more tokens than in training
        self.layer_type: str | None = None
        prefix = ""
        rope = config.rope_parameters
        if getattr(base, "layer_types", None) is not None:  # `matches` has seen full layers among them
            self.layer_type = "full_attention"
            prefix = "full_attention_"
            rope = rope["full_attention"]
        self.rope_type: str = rope.get("rope_type", "default")
        self.theta = float(rope.get("rope_theta", 10_000.0))
        # a base that has encoded a long input may still have the frequencies of its length: two tokens reset them
        device = getattr(base, f"{prefix}inv_freq").device
        x = torch.zeros(1, 2, 1, device=device)
        at = torch.tensor([[0, 1]], device=device)
        turn = self._own(x, at, self.layer_type)
        # Not a buffer: model.bfloat16() must not round it.
        self.inv_freq: Tensor = getattr(base, f"{prefix}inv_freq").detach().float().cpu().clone()
        self.interleaved, self.scaling = self._layout(turn)

    def _layout(self, turn: object) -> tuple[bool, float]:
        """Which dimensions form a pair, and the factor of all cosines: both read from the module's own output."""
        if not isinstance(turn, tuple):
            raise ModelError(
                f"{type(self.base).__name__} gives no cosines and sines, which is all that we know."
            )
        cos = turn[0][0].float().cpu()
        scaling = float(cos[0, 0])
        wanted = self.inv_freq.cos()
        shown = cos[1] / scaling
        if shown.shape[0] == 2 * len(wanted):
            for interleaved in (False, True):
                if interleaved:
                    layout = wanted.repeat_interleave(2)
                else:
                    layout = torch.cat([wanted, wanted])
                if torch.allclose(shown, layout, atol=1e-5):
                    return interleaved, scaling
        raise ModelError(f"{type(self.base).__name__} orders its rotary angles in a way that we do not know.")

    def _own(self, x: Tensor, position_ids: Tensor, layer_type: str | None) -> CosSin:
        if layer_type is None:
            return self.base(x, position_ids)
        return self.base(x, position_ids, layer_type)

    def frequencies(self, lengths: Tensor) -> Tensor:
        """The base's own inverse frequencies for these lengths: `[d/2]` or `[b, d/2]`, float32, on the host."""
        if self.rope_type not in _BY_LENGTH:
            return self.inv_freq
        # A strategy brings documents into the trained range, so they get the frequencies of the trained length.
        limit = lengths.max()
        if self.strategy.overrides():
            limit = torch.tensor(self.strategy.trained_len)
        init = ROPE_INIT_FUNCTIONS[self.rope_type]
        rows = [
            init(self.config, torch.device("cpu"), seq_len=int(n), layer_type=self.layer_type)[0]
            for n in lengths.clamp(max=limit).tolist()
        ]
        return torch.stack(rows).float()

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> CosSin:
        """Cosines and sines `[b, n, r]` for x's documents."""
        lengths = current()
        acts = self.strategy.overrides() & _ACTS
        if layer_type != self.layer_type or (not acts and self.rope_type not in _BY_LENGTH):
            return self._own(x, position_ids, layer_type)
        if lengths is None:
            raise ModelError(
                f"the transformer of an extended model got {len(x)} inputs of {x.shape[1]} tokens directly, but only "
                "its SentenceTransformer tells it where documents end; call the SentenceTransformer."
            )
        n = lengths.n
        if position_ids.ndim == 3:
            # time, height and width of models that also see pictures: in a text the three are equal
            position_ids = position_ids[0]
        p = position_ids.expand(len(n), -1)
        inv_freq = self.frequencies(n).expand(len(n), -1)
        size = torch.full((len(n), 1), self.scaling)
        mapped = p.float()
        if acts:
            strategy = self.strategy
            changed = strategy.changes(n, Rotary.actions)[:, None]
            new = torch.stack([strategy.inv_freq(row, self.theta) for row in inv_freq])
            inv_freq = new.where(changed, inv_freq)
            size = (size * strategy.rotation_factor()).where(changed, size)
            moved = strategy.position_ids(p, lengths.on_device("n", lambda: lengths.n)[:, None]).float()
            mapped = moved.where(to_device(changed, x.device), mapped)
        angles = mapped[..., None] * to_device(inv_freq, x.device)[:, None]
        if self.interleaved:
            angles = angles.repeat_interleave(2, -1)
        else:
            angles = torch.cat([angles, angles], -1)
        factor = to_device(size, x.device)[..., None]
        cos = angles.cos() * factor
        sin = angles.sin() * factor
        return cos.to(x.dtype), sin.to(x.dtype)


def lift_window(config: PretrainedConfig, strategy: Strategy) -> None:
    """Widen a sliding window that had no effect in training, so that it has no effect on extended documents.

    The window stays a number and does not become None: transformers needs a number in every sliding layer.
    """
    window = getattr(config, "sliding_window", None)
    if window is not None and strategy.trained_len <= window < strategy.target_len:
        config.sliding_window = strategy.target_len


class Rotary(Family):
    """Mistral, Llama, Qwen, Gemma, ModernBERT, GTE, Jina v3 ...: every native model with a rotary module."""

    name: ClassVar[str] = "rotary"
    actions: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "inv_freq", "attention"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy) -> None:
        super().__init__(model, strategy)
        rotary = self._wrap(model)
        self._check_scaling(model, rotary)
        reason = _why_own_attention(model.config)
        if reason is not None:
            # strategies that act outside of attention still work
            self._check_outside(model, reason)
            if strategy.overrides():
                lift_window(model.config, strategy)
            return
        calls = install_and_probe(model, LongAttention(strategy))
        if "attention" in strategy.overrides():
            relative = strategy.attention(self._rotation(model, rotary, calls))
            install(model, LongAttention(strategy, relative))

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        # models of pictures and sound have no vocabulary, and those that read both are made of several models
        parts = set(getattr(config, "sub_configs", None) or ()) - _PARTS_OF_LAYERS
        text = isinstance(getattr(config, "vocab_size", None), int) and not parts
        # layers without attention (linear, convolutions, state spaces) have no positions
        layers = set(getattr(config, "layer_types", None) or ())
        rope = getattr(config, "rope_parameters", None) or {}
        # frequencies of sliding layers alone (Gemma 3) are not ours: such layers never see more tokens than in training
        ours = bool(rope) and ("full_attention" not in rope or "full_attention" in layers)
        return text and layers <= _ATTENDING and ours and config.model_type not in _OUT_OF_REACH

    def _wrap(self, model: PreTrainedModel) -> MappedRotary:
        """Replace the model's rotary module with ours."""
        rotary_modules = [
            (name, part)
            for name, part in model.named_modules()
            if isinstance(getattr(part, "inv_freq", getattr(part, "full_attention_inv_freq", None)), Tensor)
        ]
        if len(rotary_modules) != 1:
            raise ModelError(
                f"a model must have one rotary module to be extended, {type(model).__name__} has {len(rotary_modules)}."
            )
        ((name, module),) = rotary_modules
        mapped = MappedRotary(module, self.strategy, model.config)
        model.set_submodule(name, mapped)
        return mapped

    def _check_outside(self, model: PreTrainedModel, reason: str) -> None:
        """Raise IncompatibleError for a strategy that acts inside attention, in a model that keeps its own."""
        strategy = self.strategy
        if "attention" in strategy.overrides():
            what = strategy.KEY
            remedy = "use pcw, pi or ntk with logn=off."
        elif strategy.query_factor(torch.tensor(strategy.target_len)).item() != 1:
            what = f"{strategy.KEY} with logn=on"
            remedy = "use logn=off."
        else:
            return
        raise IncompatibleError(
            f"{what} acts inside attention, but {type(model).__name__} {reason}; {remedy}"
        )

    def _check_scaling(self, model: PreTrainedModel, rotary: MappedRotary) -> None:
        key = self.strategy.KEY
        overrides = self.strategy.overrides()
        if self.strategy.NEEDS_PLAIN_ROPE and rotary.rope_type not in ("default", "linear"):
            raise IncompatibleError(
                f"{key} needs plain rotary frequencies, but {type(model).__name__} already has rope scaling of "
                f"type {rotary.rope_type}; use ntk or pi, which work with rope scaling."
            )
        if "attention" in overrides and rotary.rope_type in _BY_LENGTH:
            raise IncompatibleError(
                f"{key} needs the same rotary frequencies at every length, but those of {type(model).__name__} "
                f"change with the length (type {rotary.rope_type}); use pi or ntk."
            )
        windows = [_window(m, model.config) for m in model.modules() if hasattr(m, "is_causal")]
        sliding = {w is not None and w < self.strategy.trained_len for w in windows}
        widest = max((w for w in windows if w is not None), default=0)
        extends_full = rotary.layer_type is not None and overrides & _ACTS
        if extends_full and widest >= self.strategy.trained_len:
            raise IncompatibleError(
                f"{key} extends the full layers of {type(model).__name__} alone, so its sliding layers must see "
                f"fewer tokens than the trained length of {self.strategy.trained_len}, got {widest}; use pcw, or "
                "give the trained_len of the model itself."
            )
        if rotary.layer_type is None and len(sliding) == 2 and overrides & {"position_ids", "inv_freq"}:
            raise IncompatibleError(
                f"{key} would also change the sliding layers of {type(model).__name__}, because they share one "
                "rotary module with the layers of full attention; use pcw (on some of these models se works too)."
            )

    def _rotation(self, model: PreTrainedModel, rotary: MappedRotary, calls: list[LayerCall]) -> Rotation:
        """How the layers rotate queries and keys: with the same pairs of dimensions as the rotary module, or others.

        GLM's rotary module pairs the two halves of a vector, but its layers rotate neighbours.
        """
        windows = [_window(module, model.config) for module, _, _ in calls]
        # such layers stay as they are
        slides = [w is not None and w < self.strategy.trained_len for w in windows]
        full = [call for call, sliding in zip(calls, slides, strict=True) if not sliding]
        for interleaved in (rotary.interleaved, not rotary.interleaved):
            rotation = Rotation(rotary.inv_freq, interleaved)
            if _turns_back(rotation, full):
                return rotation
        # where sliding layers share the rotary module, pi and ntk are refused (Cohere 2 turns in these alone)
        raise ModelError(
            f"{type(model).__name__} rotates queries and keys in a way that we do not know, so "
            f"{self.strategy.KEY} cannot change it; use "
            f"{'pcw' if any(slides) and rotary.layer_type is None else 'pi or ntk'}."
        )


def _why_own_attention(config: PretrainedConfig) -> str | None:
    """Why a model keeps the attention that it has. None if ours replaces it."""
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return "needs its own attention for soft capping"
    name = config._attn_implementation
    if name is not None and "flash" in name:
        return f"was loaded with attn_implementation={name}, which replaces ours"
    return None


def _window(layer: nn.Module, config: PretrainedConfig) -> int | None:
    """The window of an attention layer in tokens. None for full attention."""
    kinds = getattr(config, "layer_types", None)
    index = getattr(layer, "layer_idx", None)
    if kinds and index is not None and kinds[index] == "full_attention":
        return None  # EXAONE 4 gives all its layers the attribute
    return getattr(layer, "sliding_window", None)


def _turns_back(rotation: Rotation, calls: list[LayerCall]) -> bool:
    """Whether rotating the queries and keys of `install_and_probe` back to position 0 makes all tokens equal."""
    for _, query, key in calls:
        for x in (query.float(), key.float()):
            if 2 * len(rotation.inv_freq) > x.shape[-1]:
                return False
            back = rotation.rotate(x, rotation.angles(torch.zeros(x.shape[2]), x.device))
            size = back.abs().max()
            tolerance = 1e-3
            if query.dtype != torch.float32:
                tolerance = 5e-2
            moved = (x - x[:, :, :1]).abs().max()
            if (back - back[:, :, :1]).abs().max() > tolerance * size or moved < 1e-6 * size:
                return False
    return True
