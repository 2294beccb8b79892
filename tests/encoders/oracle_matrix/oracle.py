"""The oracle of rotary models: the stock model in float64, one document at a time, with every position said outright.

It knows nothing of how an architecture lays its rotary dimensions out, or what its layers do beside attention:

- Positions and frequencies that a strategy changes are handed to the model's own rotary module.
- Relative positions that differ from `i - j` are looked up: the layer runs once for each relative position that
  occurs, with all tokens at that position, which gives every query turned by it; the scores of all pairs of tokens
  are then put together from those, dense.
"""

import copy
import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from tests import tiny
from tests.encoders import attention_oracles as oracles

S = 4
LO, LT = tiny.TRAINED, S * tiny.TRAINED
#: label -> strategy and parameters
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("none", {"logn": True}),
    "gp": ("gp", {}),
    "gp target": ("gp", {"factor": "target"}),
    "rp": ("rp", {}),
    "pi": ("pi", {}),
    "pi scale": ("pi", {"short": "scale"}),
    "ntk": ("ntk", {}),
    "ntk keep": ("ntk", {"short": "keep"}),
    "se": ("se", {}),
    "se document": ("se", {"g": "document"}),
    "yarn": ("yarn", {"beta_fast": 4.0}),
    "yarn logn off": ("yarn", {"beta_fast": 4.0, "logn": False}),
}
#: Changes nothing, by way of the dense scores: shows that these are the stock model's.
DENSE = "dense"
#: Labels of strategies that act inside attention.
RELATIVE = frozenset(label for label, (key, _) in VARIANTS.items() if key == "se")


def frequencies(label: str, inv_freq: torch.Tensor, theta: float, n: int) -> torch.Tensor:
    """Inverse frequencies in float64 for a document of n tokens."""
    if label == DENSE or (label == "ntk keep" and n <= LO):
        return inv_freq
    key, _ = VARIANTS[label]
    d = 2 * len(inv_freq)
    two_i = torch.arange(0, d, 2, dtype=torch.float64)
    if key == "ntk":
        return inv_freq * (theta * (S + max(1, S / 4))) ** (-two_i / d) / theta ** (-two_i / d)
    if n <= LO:
        return inv_freq
    if key == "yarn":

        def index(turns: float) -> float:
            return d * math.log(LO / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low, high = max(math.floor(index(4.0)), 0), min(math.ceil(index(1.0)), d - 1)
        ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        return inv_freq / S * ramp + inv_freq * (1 - ramp)
    return inv_freq


def position_at(label: str, p: int, n: int) -> float:
    """The position that token p of a document of n tokens takes."""
    if label == "gp target":
        return p // S
    if label == "pi scale":
        return p / S
    if n <= LO:
        return p
    return {"gp": p // math.ceil(n / LO), "rp": p % LO, "pi": p / S}.get(label, p)


def relative_at(label: str, i: int, j: int, n: int) -> float:
    """The relative position at which token i of a document of n tokens sees token j, inside attention."""
    if label == DENSE:
        return i - j
    s = math.ceil(n / LO) if label == "se document" else S
    return oracles.self_extend(s + 1, LO // s)(i, j)


@functools.lru_cache(maxsize=256)
def relative_matrix(label: str, n: int) -> Tensor | None:
    """`relative_at` of every pair of tokens: `[n, n]`; None where the model's own attention gives it."""
    if label != DENSE and (n <= LO or label not in RELATIVE):
        return None
    return torch.tensor([[relative_at(label, i, j, n) for j in range(n)] for i in range(n)])


def own_frequencies(rope: dict[str, Any], inv_freq: Tensor, label: str, n: int, limit: int) -> Tensor:
    """The base's own frequencies, where they hang on the length: by the definitions of their papers."""
    kind = rope.get("rope_type")
    if kind not in ("dynamic", "longrope"):
        return inv_freq
    n = n if label in ("none", DENSE) else min(n, LO)
    theta, d = rope["rope_theta"], 2 * len(inv_freq)
    steps = torch.arange(0, d, 2, dtype=torch.float64) / d
    if kind == "dynamic":
        grown = max(rope["factor"] * n / limit - (rope["factor"] - 1), 1)
        return 1 / (theta * grown ** (d / (d - 2))) ** steps
    long = n > rope["original_max_position_embeddings"]
    factor = torch.tensor(rope["long_factor" if long else "short_factor"], dtype=torch.float64)
    return 1 / (factor * theta**steps)


class NotFollowed(Exception):
    """The oracle cannot run an architecture, or is not the base on it, so that it says nothing about it."""


class Oracle:
    """A base with every position of a strategy said outright. `label` is one of `VARIANTS`, or `DENSE`.

    Everything that the architecture itself does not run in float32 is of `dtype`.

    Raises:
        NotFollowed: if the architecture is no rotary model of a kind known here.
    """

    def __init__(self, base: SentenceTransformer, label: str, logn: bool, dtype=torch.float64) -> None:
        self.model = copy.deepcopy(base).to(dtype).eval()
        self.label, self.logn = label, logn
        inner: Any = self.model[0].model
        self.config = inner.config
        self.config.use_cache = False
        if label not in ("none", DENSE) and (getattr(self.config, "sliding_window", None) or 0) >= LO:
            self.config.sliding_window = LT  # it had no effect in training
        self.limit = inner.config.max_position_embeddings
        names = ("inv_freq", "full_attention_inv_freq")
        rotary = [m for m in inner.modules() if any(hasattr(m, name) for name in names)]
        if len(rotary) != 1:
            raise NotFollowed(f"{len(rotary)} rotary modules")
        [self.rotary] = rotary
        # the decorators of types that go by length would undo what is set here
        self.turn: Callable[..., Any] = inspect.unwrap(type(self.rotary).forward)
        self.freqs = {name: b.clone() for name, b in self.rotary.named_buffers() if name.endswith("inv_freq")}
        self.handed_out: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.rotary.forward = self.rotate
        self.n = 0
        self.layers: dict[int, nn.Module] = {}
        self.watched = False
        #: relative position at which queries are being collected; None outside a collection
        self.collecting: float | None = None
        self.queries: dict[float, Tensor] = {}
        self._register()
        inner.set_attn_implementation("oracle")

    def _register(self) -> None:
        # another oracle may have taken the names since
        AttentionInterface.register("oracle", self.attend)
        AttentionMaskInterface.register("oracle", eager_mask)

    # ---- positions ------------------------------------------------------------------------------------------

    def rotate(self, x: Tensor, position_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        """What the rotary module gives for the document's own positions, which the strategy sets."""
        kind = args[0] if args else kwargs.get("layer_type")
        at = position_ids.double()
        if kind in (None, "full_attention"):
            at = at.cpu().apply_(lambda p: position_at(self.label, int(p), self.n))
        given = self.rotated(x, at, *args, **kwargs)
        self.handed_out.append((given, (x, *args), kwargs))
        return given

    def rotated(self, x: Tensor, at: Tensor, *args: Any, **kwargs: Any) -> Any:
        """What the rotary module gives for tokens at some positions, with the strategy's frequencies."""
        kind = args[0] if args else kwargs.get("layer_type")
        prefix = "" if kind is None else f"{kind}_"
        if kind in (None, "full_attention"):
            rope = self.config.rope_parameters
            rope = rope if kind is None else rope[kind]
            inv_freq = self.freqs[f"{prefix}inv_freq"].double()
            inv_freq = own_frequencies(rope, inv_freq, self.label, self.n, self.limit)
            changed = frequencies(self.label, inv_freq, rope.get("rope_theta", 1e4), self.n)
            setattr(self.rotary, f"{prefix}inv_freq", changed)
        given = self.turn(self.rotary, x, at, *args, **kwargs)
        if kind in (None, "full_attention") and self._tempered():
            given = tuple(part * (0.1 * math.log(S) + 1) for part in given)
        return given

    def _tempered(self) -> bool:
        tempering = self.label != DENSE and VARIANTS[self.label][0] == "yarn"
        return tempering and not self.logn and self.n > LO

    # ---- attention ------------------------------------------------------------------------------------------

    def slides(self, module: Any, sliding_window: int | None) -> bool:
        """Whether a layer sees no more than a window that training has felt."""
        kinds = getattr(self.config, "layer_types", None)
        if kinds is not None and kinds[module.layer_idx] == "full_attention":
            return False
        window = sliding_window if sliding_window is not None else getattr(module, "sliding_window", None)
        # none keeps windows that cut something
        return window is not None and window < (LT if self.label == "none" else LO)

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Any]:  # fmt: skip
        self.layers.setdefault(id(module), module)
        n = query.shape[2]
        full = not self.slides(module, kwargs.get("sliding_window"))
        if self.collecting is not None and full:
            self.queries[self.collecting] = query
            if self.collecting == 0:
                self.keys = key
            return query.new_zeros(query.shape[0], n, query.shape[1], value.shape[-1]), None
        if self.logn and full and n > LO:
            causal = kwargs.get("is_causal")
            causal = module.is_causal if causal is None else causal
            seen = torch.arange(1.0, n + 1) if causal else torch.full((n,), float(n))
            scale = (seen.double().log() / math.log(LO)).clamp(min=1)[:, None].to(query.dtype)
            query = query * scale
        else:
            scale = query.new_ones(n, 1)
        at = relative_matrix(self.label, n)
        if at is None or not full:
            stock = sys.modules[type(module).__module__].eager_attention_forward
            return stock(module, query, key, value, attention_mask, **kwargs)
        groups = query.shape[1] // key.shape[1]
        keys, values = (x.repeat_interleave(groups, 1).double() for x in (self.keys, value))
        scores = query.new_zeros(*query.shape[:2], n, n, dtype=torch.float64)
        for r, turned in self.queries.items():
            scores = torch.where(at == r, (turned.double() @ keys.transpose(-1, -2)), scores)
        scaling = kwargs.get("scaling")
        scores = scores * scale.double() * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        if attention_mask is not None:
            scores = scores + attention_mask[..., :n].double()
        return (scores.softmax(-1) @ values).to(query.dtype).transpose(1, 2).contiguous(), None

    def _watch(self, module: Any) -> None:
        """Have a layer's queries collected at each relative position before it runs."""
        original = module.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            at = relative_matrix(self.label, self.n)
            if at is None or self.slides(module, None):
                return original(*args, **kwargs)
            self.queries = {}
            for r in {0.0, *at.unique().tolist()}:
                self.collecting = r
                replaced = _Replacing(self, r)
                original(*[replaced(a) for a in args], **{k: replaced(a) for k, a in kwargs.items()})
                if not replaced.used:
                    raise NotFollowed("a layer that does not get the rotary angles as they were handed out")
            self.collecting = None
            return original(*args, **kwargs)

        module.forward = forward

    # ---- documents ------------------------------------------------------------------------------------------

    def features(self, text: str, limit: int = LT) -> Tensor:
        """The embedding of one document, with gradients."""
        self._register()
        ids = self.model.tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        given = {name: ids[name] for name in ("input_ids", "attention_mask")}
        self.n = given["input_ids"].shape[1]
        self.handed_out = []
        if relative_matrix(self.label, self.n) is not None and not self.watched:
            self.watched = True
            label, self.label = self.label, "none"
            with torch.no_grad():
                self.model[0](dict(given))
            self.label, self.handed_out = label, []
            for layer in self.layers.values():
                self._watch(layer)
        for module in self.model:
            given = module(given)
        return given["sentence_embedding"][0]

    @torch.no_grad()
    def encode(self, text: str) -> Tensor:
        return self.features(text)


class _Replacing:
    """Puts the angles of one position in the place of the angles that the rotary module returned."""

    def __init__(self, oracle: Oracle, position: float) -> None:
        self.oracle, self.position, self.used = oracle, position, False

    def __call__(self, value: Any) -> Any:
        for given, (x, *args), kwargs in self.oracle.handed_out:
            parts = given if isinstance(given, tuple) else (given,)
            indices = [i for i, part in enumerate(parts) if part is value]
            if value is given or indices:
                self.used = True
                at = torch.full((1, self.oracle.n), self.position, dtype=torch.float64)
                made = self.oracle.rotated(x, at, *args, **kwargs)
                return made if value is given else made[indices[0]]
        if isinstance(value, tuple) and any(isinstance(part, Tensor) for part in value):
            return tuple(self(part) for part in value)
        return value
