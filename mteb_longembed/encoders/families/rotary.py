"""Rotary positions: queries and keys are turned by angles that grow with the position."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mteb_longembed.encoders.attention.plan import PlannedAttention
from mteb_longembed.encoders.attention.rotation import Rotation
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import MisfitError, ModelError

from .base import Family
from .interface import LayerAttention, install, trial

#: Rope types whose frequencies transformers picks by the length of what it encodes.
_BY_LENGTH = ("dynamic", "longrope")
#: Kinds of layers that rotary positions enter in a way that we know.
_ATTENDING = {"full_attention", "sliding_attention"}
#: Configurations inside one that describe its layers, and no further model (DBRX).
_PARTS_OF_LAYERS = {"attn_config", "ffn_config"}
#: Model types whose attention we cannot reach although they have rotary positions, by what stands in the way.
_OUT_OF_REACH = {
    "beam": "full layers without positions",
    "diffllama": "two attentions in a layer",
    "doge": "attention of its own",
    "falcon": "attention of its own",
    "gpt_oss": "attention sinks",
}


class Documents:
    """The lengths of the documents that a thread is encoding (replicas of one model run in threads)."""

    def __init__(self) -> None:
        self._of_thread: dict[int, Tensor] = {}

    def set(self, lengths: Tensor) -> None:
        """Remember `[b]` lengths for this thread's next forward pass."""
        self._of_thread[threading.get_ident()] = lengths

    def lengths(self, b: int, width: int) -> Tensor | None:
        """The lengths of this thread's `b` documents of at most `width` tokens, None before the first.

        Raises:
            ModelError: if other documents were announced: the model was called past the SentenceTransformer.
        """
        lengths = self._of_thread.get(threading.get_ident())
        if lengths is not None and (len(lengths) != b or int(lengths.max()) > width):
            raise ModelError(
                f"the transformer of an extended model got {b} inputs of {width} tokens past its "
                "SentenceTransformer, which tells it where documents end; call the SentenceTransformer."
            )
        return lengths

    def __getstate__(self) -> dict[str, Any]:
        return {"_of_thread": {}}


class MappedRotary(nn.Module):
    """A model's rotary module with the strategy's positions and frequencies, per document.

    Positions are mapped in here and never passed to the model: causal models take position ids that fall or
    repeat for packed documents and would hide the first from the last.

    Args:
        base: the model's own module; it still serves what the strategy leaves alone.
        strategy: its hooks `position_ids` and `inv_freq` act here.
        documents: set before each forward pass.
        config: the model's.
    """

    def __init__(
        self, base: nn.Module, strategy: Strategy, documents: Documents, config: PretrainedConfig
    ) -> None:
        super().__init__()
        self.base = base
        self.strategy = strategy
        self.documents = documents
        self.config = config
        nested = getattr(base, "layer_types", None)
        #: the layer types that are extended: sliding layers see no more than in training
        self.layer_type: str | None = None if nested is None else "full_attention"
        if nested is not None and self.layer_type not in nested:
            raise ModelError(f"{type(base).__name__} has no full-attention layers that could be extended.")
        prefix = "" if nested is None else "full_attention_"
        rope = config.rope_parameters if nested is None else config.rope_parameters["full_attention"]
        self.rope_type: str = rope.get("rope_type", "default")
        self.theta = float(rope.get("rope_theta", 10_000.0))
        # a base that encoded before may still hold the frequencies of that input's length: two tokens reset it
        device = next((b.device for b in base.buffers()), torch.device("cpu"))
        self._own(torch.zeros(1, 2, 1, device=device), torch.tensor([[0, 1]], device=device), self.layer_type)
        # Not a buffer: model.bfloat16() must not round it.
        self.inv_freq: Tensor = getattr(base, f"{prefix}inv_freq").detach().float().cpu().clone()
        self.interleaved, self.scaling = self._probe()

    def _probe(self) -> tuple[bool, float]:
        """Which dimensions form a pair, and the factor of all cosines, as the module itself shows them."""
        device = next((b.device for b in self.base.buffers()), torch.device("cpu"))
        x = torch.zeros(1, 2, 1, device=device)
        cos, _ = self._own(x, torch.tensor([[0, 1]], device=device), self.layer_type)
        cos = cos[0].float().cpu()
        scaling = float(cos[0, 0])
        wanted = self.inv_freq.cos()
        shown = cos[1] / scaling
        if shown.shape[0] == 2 * len(wanted):
            for interleaved in (False, True):
                layout = wanted.repeat_interleave(2) if interleaved else torch.cat([wanted, wanted])
                if torch.allclose(shown, layout, atol=1e-5):
                    return interleaved, scaling
        raise ModelError(f"{type(self.base).__name__} lays its rotary angles out in a way we do not know.")

    def _own(self, x: Tensor, position_ids: Tensor, layer_type: str | None) -> tuple[Tensor, Tensor]:
        if layer_type is None:
            return self.base(x, position_ids)
        return self.base(x, position_ids, layer_type)

    def frequencies(self, lengths: Tensor) -> Tensor:
        """The base's own inverse frequencies for these lengths: `[d/2]` or `[b, d/2]`, float32."""
        if self.rope_type not in _BY_LENGTH:
            return self.inv_freq.to(lengths.device)
        # A strategy brings documents into the trained range, so the trained length's frequencies are theirs.
        limit = lengths.max() if self.strategy.key() == "none" else torch.tensor(self.strategy.trained_len)
        init = ROPE_INIT_FUNCTIONS[self.rope_type]
        rows = [
            init(self.config, torch.device("cpu"), seq_len=int(n), layer_type=self.layer_type)[0]
            for n in lengths.cpu().clamp(max=limit.cpu()).tolist()
        ]
        return torch.stack(rows).float().to(lengths.device)

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[b, n, r]` for x's documents."""
        lengths = self.documents.lengths(len(x), position_ids.shape[-1])
        hooks = self.strategy.hooks()
        own = self.strategy.key() == "none" or not hooks & {"position_ids", "inv_freq", "attention"}
        if layer_type != self.layer_type or lengths is None:
            return self._own(x, position_ids, layer_type)
        if own and self.rope_type not in _BY_LENGTH:
            return self._own(x, position_ids, layer_type)
        if position_ids.ndim == 3:
            # time, height and width of models that also see pictures: in a text they are one
            position_ids = position_ids[0]
        n = lengths.to(position_ids.device)
        angles = mapped_angles(
            self.strategy, position_ids.expand(len(n), -1), n, self.frequencies(n), self.theta
        )
        angles = angles.repeat_interleave(2, -1) if self.interleaved else torch.cat([angles, angles], -1)
        size = self.scaling * self.strategy.rotary_scale(n).view(-1, 1, 1)
        cos, sin = angles.cos() * size, angles.sin() * size
        return cos.to(x.dtype), sin.to(x.dtype)


def mapped_angles(strategy: Strategy, p: Tensor, n: Tensor, inv_freq: Tensor, theta: float) -> Tensor:
    """Rotary angles `[b, n, r/2]` in float32 after the strategy's hooks.

    Args:
        strategy: its hooks `position_ids` and `inv_freq` are applied where it has them.
        p: `[b, n]` positions.
        n: `[b]` lengths of the documents in tokens.
        inv_freq: `[r/2]`, or `[b, r/2]` where the base itself varies them with the length.
        theta: the base's rope base.
    """
    hooks = strategy.hooks()
    if "position_ids" in hooks:
        p = strategy.position_ids(p, n[:, None])
    if "inv_freq" in hooks:
        rows = inv_freq.expand(len(n), -1) if inv_freq.ndim == 2 else inv_freq[None]
        lengths = n[:, None] if inv_freq.ndim == 2 else n[None]
        changed = [strategy.inv_freq(row, theta, of) for row, of in zip(rows, lengths, strict=True)]
        inv_freq = torch.cat([c if c.ndim == 2 else c[None] for c in changed])
    return p.float()[..., None] * inv_freq.view(-1, 1, inv_freq.shape[-1])


def lift_window(config: PretrainedConfig, strategy: Strategy) -> None:
    """Widen a sliding window that training never felt, so that it never cuts an extended document up.

    The window stays a number: transformers asks for one wherever a layer is said to slide.
    """
    window = getattr(config, "sliding_window", None)
    if window is not None and strategy.trained_len <= window < strategy.target_len:
        config.sliding_window = strategy.target_len


class Rotary(Family):
    """Mistral, Llama, Qwen, Gemma, ModernBERT, GTE, Jina v3 ...: any native model with a rotary module."""

    name: ClassVar[str] = "rotary"
    hooks: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "inv_freq", "attention"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        self.documents = Documents()
        self.settings = LayerAttention(strategy, keep_windows=strategy.key() == "none")
        rotary = self._wrap(model)
        self._check_scaling(model, rotary)
        acts_inside = "attention" in strategy.hooks()
        if getattr(model.config, "attn_logit_softcapping", None) is not None:
            # Soft capping needs the model's own (eager) attention, which strategies outside of it can share.
            lengths = torch.tensor([1, strategy.trained_len, strategy.target_len])
            if acts_inside or bool((strategy.query_scale(lengths) != 1).any()):
                raise MisfitError(
                    f"{strategy.key()} {'' if acts_inside else 'with logn=on '}acts inside attention, which "
                    f"{type(model).__name__} caps in a way of its own; "
                    + ("use pcw, pi or ntk with logn=off." if acts_inside else "use logn=off.")
                )
            if strategy.key() != "none":
                lift_window(model.config, strategy)
            return
        install(model, self.settings)
        calls = trial(model, self.settings)
        if acts_inside:
            rotation = self._rotation(model, rotary, calls)
            self.settings.planned = PlannedAttention(strategy.attention(), rotation)

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        native = type(config).__module__.startswith("transformers.")
        # models of pictures and sound have no vocabulary, and those that read both are made of several models
        parts = set(getattr(config, "sub_configs", None) or ()) - _PARTS_OF_LAYERS
        text = isinstance(getattr(config, "vocab_size", None), int) and not parts
        # layers without attention (linear, convolutions, state spaces) have no positions
        attends = set(getattr(config, "layer_types", None) or ()) <= _ATTENDING
        return (
            native
            and text
            and attends
            and bool(getattr(config, "rope_parameters", None))
            and config.model_type not in _OUT_OF_REACH
        )

    def _wrap(self, model: PreTrainedModel) -> MappedRotary:
        """Put our module in the place of the model's rotary module."""
        found = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(
                getattr(module, "inv_freq", getattr(module, "full_attention_inv_freq", None)), Tensor
            )
        ]
        if len(found) != 1:
            raise ModelError(
                f"{type(model).__name__} has {len(found)} rotary modules, only models with one are known."
            )
        ((name, module),) = found
        mapped = MappedRotary(module, self.strategy, self.documents, model.config)
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, mapped)
        return mapped

    def _check_scaling(self, model: PreTrainedModel, rotary: MappedRotary) -> None:
        key, hooks = self.strategy.key(), self.strategy.hooks()
        if self.strategy.NEEDS_PLAIN_ROPE and rotary.rope_type not in ("default", "linear"):
            raise MisfitError(
                f"{key} is defined on plain rotary frequencies, and {type(model).__name__} comes with rope "
                f"scaling of type {rotary.rope_type}; use ntk or pi, which multiply on top."
            )
        if "attention" in hooks and rotary.rope_type in _BY_LENGTH:
            raise MisfitError(
                f"{key} needs the same rotary frequencies at every length, and {type(model).__name__} has "
                f"some of type {rotary.rope_type}; use pi or ntk."
            )
        windows = [getattr(m, "sliding_window", None) for m in model.modules() if hasattr(m, "is_causal")]
        sliding = {w is not None and w < self.strategy.trained_len for w in windows}
        widest = max((w for w in windows if w is not None), default=0)
        if (
            rotary.layer_type is not None
            and widest >= self.strategy.trained_len
            and hooks & {"position_ids", "inv_freq", "attention"}
            and key != "none"
        ):
            raise MisfitError(
                f"{key} extends the full layers of {type(model).__name__} alone, so its sliding layers must see "
                f"fewer tokens than the trained length of {self.strategy.trained_len}, got {widest}; use pcw, or "
                "give the trained_len of the model itself."
            )
        if (
            rotary.layer_type is None
            and len(sliding) == 2
            and hooks & {"position_ids", "inv_freq"}
            and key != "none"
        ):
            raise MisfitError(
                f"{key} would change the sliding layers of {type(model).__name__} too, which share one "
                "rotary module with the full ones; use se or pcw."
            )

    def _rotation(
        self, model: PreTrainedModel, rotary: MappedRotary, calls: list[tuple[nn.Module, Tensor, Tensor]]
    ) -> Rotation:
        """How the layers turn their queries and keys: with the pairs that the rotary module shows, or the others.

        GLM's module shows halves, and its layers turn neighbours.

        Raises:
            ModelError: if they do neither.
        """
        for interleaved in (rotary.interleaved, not rotary.interleaved):
            rotation = Rotation(rotary.inv_freq, interleaved)
            if _turns_back(rotation, calls):
                return rotation
        # where sliding layers share the rotary module, pi and ntk are refused (Cohere 2 turns in these alone)
        windows = [getattr(module, "sliding_window", None) for module, _, _ in calls]
        shared = any(w is not None and w < self.strategy.trained_len for w in windows)
        raise ModelError(
            f"{type(model).__name__} turns queries and keys in a way that {self.strategy.key()} cannot follow; "
            f"use {'pcw' if shared and rotary.layer_type is None else 'pi or ntk'}."
        )

    def prepare(self, features: dict[str, Any], lengths: Tensor) -> dict[str, Any]:
        self.documents.set(lengths)
        return features


def _turns_back(rotation: Rotation, calls: list[tuple[nn.Module, Tensor, Tensor]]) -> bool:
    """Whether turning queries and keys back to position 0 makes all tokens of a one-token text the same."""
    for module, query, key in calls:
        if getattr(module, "sliding_window", None) is not None:
            continue
        for x in (query.float(), key.float()):
            if 2 * len(rotation.inv_freq) > x.shape[-1]:
                return False
            back = rotation.apply(x, rotation.turn(torch.zeros(x.shape[2], device=x.device)))
            size = back.abs().max()
            tolerance = 1e-3 if query.dtype == torch.float32 else 5e-2
            moved = (x - x[:, :, :1]).abs().max()
            if (back - back[:, :, :1]).abs().max() > tolerance * size or moved < 1e-6 * size:
                return False
    return True
