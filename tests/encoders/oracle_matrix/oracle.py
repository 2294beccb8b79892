"""The dense oracle of rotary models: one document, float64, every pair of tokens turned by its definition."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from tests.encoders.families.test_rotary import LO, LT, S, frequencies, relative

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
    "rerope": ("rerope", {}),
    "dca": ("dca", {}),
    "dca ChunkLlama": ("dca", {"chunk": 11 * LO // 16, "limit": 3 * LO // 4}),
    "yarn": ("yarn", {"beta_fast": 4.0}),
    "yarn logn off": ("yarn", {"beta_fast": 4.0, "logn": False}),
    "dynamic": ("dynamic", {}),
    "resonance": ("resonance", {"beta_fast": 4.0}),
}


def relative_at(label: str, i: int, j: int, n: int) -> float:
    """The relative position at which token i of a document of n tokens sees token j."""
    if label == "gp target":
        return i // S - j // S
    if label == "pi scale":
        return (i - j) / S
    if n <= LO or label not in ("se document", "dca ChunkLlama"):
        return relative(VARIANTS[label][0], i, j, n)
    if i < j:
        return -relative_at(label, j, i, n)
    if label == "se document":
        s = math.ceil(n / LO)
        g, w = s + 1, LO // s
        return i - j if i - j < w else i // g - j // g + w - w // g
    chunk, largest = 11, 12
    a, b, apart = i % chunk, j % chunk, i // chunk - j // chunk
    return [a - b, min(chunk + a, largest) - b, largest - b][min(apart, 2)]


@functools.lru_cache(maxsize=256)
def relative_matrix(label: str, n: int) -> Tensor:
    """`relative_at` of every pair of tokens: `[n, n]` float64. Label "" is `i - j`."""
    rows = [[relative_at(label, i, j, n) if label else i - j for j in range(n)] for i in range(n)]
    return torch.tensor(rows, dtype=torch.float64)


def frequencies_at(label: str, inv_freq: Tensor, theta: float, n: int) -> Tensor:
    if label == "ntk keep" and n <= LO:
        return inv_freq
    if label == "dynamic" and len(inv_freq) == 1:
        # the first frequency is 1 whatever the rope base
        return inv_freq
    return frequencies(VARIANTS[label][0], inv_freq, theta, n)


def own_frequencies(rope: dict[str, Any], inv_freq: Tensor, label: str, n: int, limit: int) -> Tensor:
    """The base's own frequencies, where they hang on the length: by the definitions of their papers."""
    kind = rope.get("rope_type")
    if kind not in ("dynamic", "longrope"):
        return inv_freq
    n = n if label == "none" else min(n, LO)
    theta, d = rope["rope_theta"], 2 * len(inv_freq)
    steps = torch.arange(0, d, 2, dtype=torch.float64) / d
    if kind == "dynamic":
        grown = max(rope["factor"] * n / limit - (rope["factor"] - 1), 1)
        return 1 / (theta * grown ** (d / (d - 2))) ** steps
    long = n > rope["original_max_position_embeddings"]
    factor = torch.tensor(rope["long_factor" if long else "short_factor"], dtype=torch.float64)
    return 1 / (factor * theta**steps)


class Dense:
    """A base with dense attention in float64 in the place of its own.

    Args:
        base: stays as it is.
        label: one of `VARIANTS`.
        neighbours: pairs are (0, 1), (2, 3) ... rather than halves.
        logn: whether attention scaling is on.
        dtype: of everything but attention: float32 where an architecture runs in no other.
    """

    def __init__(
        self, base: SentenceTransformer, label: str, neighbours: bool, logn: bool,
        dtype: torch.dtype = torch.float64,
    ) -> None:  # fmt: skip
        self.model = copy.deepcopy(base).to(dtype).eval()
        self.label, self.neighbours, self.logn = label, neighbours, logn
        inner: Any = self.model[0].model
        self.cap = getattr(inner.config, "attn_logit_softcapping", None)
        self.limit = inner.config.max_position_embeddings
        (rotary,) = [
            m for m in inner.modules() if hasattr(m, "inv_freq") or hasattr(m, "full_attention_inv_freq")
        ]
        nested = hasattr(rotary, "layer_types")
        rope = inner.config.rope_parameters
        self.ropes, self.inv_freq, self.size = {}, {}, {}
        for kind in ("full_attention", "sliding_attention"):
            if nested and kind not in rotary.layer_types:
                continue
            prefix = f"{kind}_" if nested else ""
            self.ropes[kind] = rope[kind] if nested else rope
            self.inv_freq[kind] = getattr(rotary, f"{prefix}inv_freq").double()
            self.size[kind] = float(getattr(rotary, f"{prefix}attention_scaling", 1.0))
        turn = rotary.forward

        def still(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
            cos, sin = turn(*args, **kwargs)
            return torch.ones_like(cos), torch.zeros_like(sin)

        rotary.forward = still
        AttentionInterface.register("dense", self.attend)
        AttentionMaskInterface.register("dense", lambda *args, **kwargs: None)
        inner.set_attn_implementation("dense")

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
        scaling: float | None = None, sliding_window: int | None = None, is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:  # fmt: skip
        q, k, v = (x.double() for x in (query, key, value))
        n, groups = q.shape[2], q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        label = self.label
        if sliding_window is not None and sliding_window >= LO and label != "none":
            sliding_window = None
        full = sliding_window is None
        kind = "full_attention" if full and "full_attention" in self.inv_freq else "sliding_attention"
        kind = kind if kind in self.inv_freq else "full_attention"
        inv_freq, rope = self.inv_freq[kind], self.ropes[kind]
        at = relative_matrix(label if full else "", n)
        size = self.size[kind] ** 2
        if full:
            inv_freq = own_frequencies(rope, inv_freq, label, n, self.limit)
            inv_freq = frequencies_at(label, inv_freq, rope.get("rope_theta", 1e4), n)
            if VARIANTS[label][0] in ("yarn", "resonance") and not self.logn and n > LO:
                size *= (0.1 * math.log(S) + 1) ** 2
        pairs = len(inv_freq)
        angle = at[..., None] * inv_freq
        if self.neighbours:
            parts = (q[..., 0 : 2 * pairs : 2], q[..., 1 : 2 * pairs : 2])
            others = (k[..., 0 : 2 * pairs : 2], k[..., 1 : 2 * pairs : 2])
        else:
            parts = (q[..., :pairs], q[..., pairs : 2 * pairs])
            others = (k[..., :pairs], k[..., pairs : 2 * pairs])
        (a, b), (c, d) = (
            (x[:, :, :, None], y[:, :, :, None]) if first else (x[:, :, None], y[:, :, None])
            for first, (x, y) in ((True, parts), (False, others))
        )
        turned = (a * angle.cos() - b * angle.sin()) * c + (b * angle.cos() + a * angle.sin()) * d
        scores = turned.sum(-1) * size + q[..., 2 * pairs :] @ k[..., 2 * pairs :].transpose(-1, -2)
        scores = scores * (q.shape[-1] ** -0.5 if scaling is None else scaling)
        causal = module.is_causal if is_causal is None else is_causal
        if self.logn and full and n > LO:
            seen = (
                torch.arange(1, n + 1, dtype=torch.float64) if causal else torch.full((n,), float(n)).double()
            )
            scores = scores * (seen.log() / math.log(LO)).clamp(min=1)[:, None]
        if self.cap is not None:
            scores = torch.tanh(scores / self.cap) * self.cap
        behind = torch.arange(n)[:, None] - torch.arange(n)
        hidden = behind < 0 if causal else torch.zeros(n, n, dtype=torch.bool)
        if sliding_window is not None:
            hidden = hidden | (behind.abs() >= sliding_window)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ v).to(query.dtype).transpose(1, 2).contiguous(), None

    def features(self, text: str) -> Tensor:
        """The embedding of one document, with gradients."""
        # another oracle may have taken the names since
        AttentionInterface.register("dense", self.attend)
        ids = self.model.tokenizer(text, truncation=True, max_length=LT, return_tensors="pt")
        features = {name: ids[name] for name in ("input_ids", "attention_mask")}
        for module in self.model:
            features = module(features)
        return features["sentence_embedding"][0]

    @torch.no_grad()
    def encode(self, text: str) -> Tensor:
        return self.features(text)
