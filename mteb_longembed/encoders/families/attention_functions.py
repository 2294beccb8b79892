"""Our attention function inside transformers models.

transformers makes a mask with the registered mask function, and passes it to the attention function. A name without
a mask function gets no mask at all, and the model would attend to padding. So we register both. Our mask is the
plain `[b, n]` padding mask, or None if nothing is padded. The attention function itself handles causality and
sliding windows, so no mask of size n x n is ever made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flash_attention_mask, sdpa_mask

from mteb_longembed.encoders.attention.context import (
    Documents,
    PackedDocuments,
    current,
    current_packed,
    encoding,
)
from mteb_longembed.encoders.attention.kernels import repeat_heads
from mteb_longembed.encoders.attention.merge import attend_tiles
from mteb_longembed.encoders.attention.packed import attend_packed, attend_packed_by_plan
from mteb_longembed.encoders.attention.plan import RelativePositionAttention
from mteb_longembed.encoders.attention.tiles import band
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.encoders.transformers_parts import attention_name, takes_attention_functions
from mteb_longembed.errors import LongEmbedError, ModelError

#: The name under which transformers knows our attention function.
ATTENTION = "longembed"
#: The name of SDPA attention that takes packed documents as well.
PACKED = "longembed_packed"
#: Documents up to this length in tokens share one kernel call with a mask. Longer ones run in groups of equal length,
#: because a mask costs a fifth of a long call.
_MASKED_UP_TO = 256
#: A layer, and the queries and keys with which it called our attention function.
LayerCall = tuple[nn.Module, Tensor, Tensor]
#: Attention of some documents: see `each_length`.
Run = Callable[[Tensor, Tensor, Tensor, int], Tensor]


@dataclass
class LayerAttention:
    """What our attention function knows about a model. All layers of the model share it.

    Args:
        strategy: scales queries by the document's length.
        planned: attention with changed relative positions for long documents. None: the positions stay.
        keep_windows: whether a sliding window stays that is at least as large as the trained length. Such a
            window had no effect in training.
        probe: the layers that `probe_attention` reached, with their queries and keys. None outside of it.
    """

    strategy: Strategy
    planned: RelativePositionAttention | None = None
    keep_windows: bool = False
    probe: list[LayerCall] | None = field(default=None, repr=False)

    def window(self, sliding_window: int | None) -> int | None:
        """The window of a layer in tokens, if it has an effect. None for full attention."""
        least = self.strategy.target_len if self.keep_windows else self.strategy.trained_len
        if sliding_window is None or sliding_window >= least:
            return None
        return sliding_window


def _check_supported(module: nn.Module, mask: Tensor | None, settings: Mapping[str, object]) -> None:
    """Raise ModelError if a layer asks for something that our attention cannot do."""
    for name in ("softcap", "s_aux", "position_bias", "cache"):
        if settings.get(name) is not None:
            raise ModelError(
                f"{type(module).__name__} uses {name} in its attention, but our attention has no {name}."
            )
    if mask is not None and mask.ndim != 2:
        raise ModelError(
            f"attention takes a padding mask [b, n], got a mask of shape {tuple(mask.shape)}: pass only tokenised "
            "texts to the extended model."
        )


def long_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Attention as transformers asks for it: `[b, h, n, d]` in, `[b, n, h, d]` out.

    ModelError if the model asks for something that our attention cannot do (soft capping, sinks, biases, a mask of
    another form). Without the error its embeddings would be wrong.
    """
    settings: LayerAttention = module.longembed
    _check_supported(module, attention_mask, kwargs)
    if settings.probe is not None:
        settings.probe.append((module, query, key))
    call = _Call(
        settings=settings,
        causal=module.is_causal if is_causal is None else is_causal,
        scale=_scale(scaling, query),
        window=settings.window(sliding_window),
        dropout=dropout,
    )
    b, _, width, _ = query.shape
    documents = documents_of(attention_mask, b, width, query.device)
    if isinstance(documents, PackedDocuments):
        return call.packed(query, key, value, documents)[None], None
    return call.padded(query, key, value, documents).transpose(1, 2).contiguous(), None


@dataclass(frozen=True)
class _Call:
    """One call of our attention function, whatever the form of its batch.

    A layer with a window never sees more tokens than in training, so there is nothing to extend in it.
    """

    settings: LayerAttention
    causal: bool
    scale: float
    window: int | None
    dropout: float

    def _extends(self, documents: Documents) -> bool:
        """Whether a document is longer than in training, in a layer that sees all of it."""
        return self.window is None and documents.longest > self.settings.strategy.trained_len

    def packed(self, query: Tensor, key: Tensor, value: Tensor, documents: PackedDocuments) -> Tensor:
        """Of `[1, h, tokens, d]`: `[tokens, h, d]`. Documents are all up to the trained length, or all above it."""
        strategy = self.settings.strategy
        planned = self.settings.planned
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        extends = self._extends(documents)
        if extends and strategy.logn:
            factors = _packed_query_scales(documents, strategy, self.causal)
            q = (q * factors[:, None, None]).to(q.dtype)
        if extends and planned is not None:
            return attend_packed_by_plan(documents, q, k, v, planned, scale=self.scale, causal=self.causal)
        return attend_packed(documents, q, k, v, scale=self.scale, causal=self.causal, window=self.window)

    def padded(self, query: Tensor, key: Tensor, value: Tensor, documents: Documents) -> Tensor:
        """Of `[b, h, n, d]`: the same shape, with any numbers in padding."""
        strategy = self.settings.strategy
        width = query.shape[2]
        is_padded = min(documents.lengths) < width
        most = strategy.trained_len
        if not documents.expanded:
            most = min(_MASKED_UP_TO, most)
        if is_padded and documents.longest <= most:
            # up to the trained length no factor differs from 1
            return self._plain(query, key, value, self.scale, documents.lengths_on_device())
        factor = torch.ones(len(documents.lengths))
        if self.causal and strategy.logn and self._extends(documents):
            query = (query * _query_scales_by_row(documents, strategy, width)).to(query.dtype)
        elif self.window is None:
            factor = strategy.query_scale(documents.n)

        def run(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
            # all documents here have one length and so one factor: as part of the scale it costs nothing
            return self._one_length(q, k, v, self.scale * float(factor[first]))

        return each_length(query, key, value, documents, run)

    def _one_length(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Attention of documents without padding."""
        planned = self.settings.planned
        if planned is None or self.window is not None or q.shape[2] <= self.settings.strategy.trained_len:
            return self._plain(q, k, v, scale)
        if self.dropout > 0:
            warnings.warn(
                "this strategy changes relative positions, so its attention runs without dropout.",
                stacklevel=2,
            )
        return planned(q, k, v, scale=scale, causal=self.causal)

    def _plain(self, q: Tensor, k: Tensor, v: Tensor, scale: float, lengths: Tensor | None = None) -> Tensor:
        return attend_plain(
            q,
            k,
            v,
            scale=scale,
            causal=self.causal,
            window=self.window,
            lengths=lengths,
            dropout=self.dropout,
        )


def _scale(scaling: float | None, query: Tensor) -> float:
    """The scale of scores, by default that of the width of the queries."""
    if scaling is None:
        return float(query.shape[-1] ** -0.5)
    return scaling


def _query_scales_by_row(documents: Documents, strategy: Strategy, width: int) -> Tensor:
    """The factor `[b, 1, width, 1]` of each token's query in a causal model, where token i sees i + 1 tokens."""
    return documents.on_device(
        "query scale",
        lambda: strategy.query_scale(documents.n[:, None], torch.arange(1, width + 1))[:, None, :, None],
    )


def _packed_query_scales(documents: PackedDocuments, strategy: Strategy, causal: bool) -> Tensor:
    """The factor `[tokens]` of each token's query. In a causal model token i sees i + 1 tokens."""

    def scales() -> Tensor:
        factors = []
        for n in documents.lengths:
            seen = torch.arange(1, n + 1) if causal else None
            factors.append(strategy.query_scale(torch.full((n,), n), seen))
        return torch.cat(factors)

    return documents.on_device(("query scale", causal), scales)


def documents_of(mask: Tensor | None, b: int, width: int, device: torch.device) -> Documents:
    """The documents of the forward pass, or those of the padding mask in a layer that runs again for gradients."""
    documents = current()
    if isinstance(documents, PackedDocuments):
        return documents
    if documents is not None and len(documents.lengths) == b and documents.longest <= width:
        return documents
    return Documents([width] * b if mask is None else mask.sum(1).tolist(), device)


def padding_mask(attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """The plain padding mask `[b, n]`. None without padding, which the host knows."""
    documents = current()
    if documents is None:
        return flash_attention_mask(attention_mask=attention_mask, **kwargs)
    if isinstance(documents, PackedDocuments) or attention_mask is None:
        return None
    if min(documents.lengths) == attention_mask.shape[-1]:
        return None
    return attention_mask


def packed_attention(layer: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """transformers' own SDPA attention, and ours for packed documents, where the strategy acts outside attention."""
    documents = current_packed()
    if documents is None:
        return sdpa_attention_forward(layer, query, key, value, *args, **kwargs)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = _scale(kwargs.get("scaling"), query)
    return attend_packed(documents, q, k, v, scale=scale, causal=False)[None], None


def install_packed(model: PreTrainedModel) -> bool:
    """Let a model's SDPA attention run packed documents too, and say whether it can. Padded ones run as before.

    This happens on every machine, because the one that builds a model may have no device that packs.
    """
    config = model.config
    packs = (
        not getattr(config, "is_decoder", False)
        and attention_name(config) in ("sdpa", PACKED)
        and takes_attention_functions(model)
    )
    if packs:
        model.set_attn_implementation(PACKED)
    return packs


def each_length(query: Tensor, key: Tensor, value: Tensor, documents: Documents, run: Run) -> Tensor:
    """Run attention for all documents of the same length together, without their padding: `[b, h, width, d]`.

    Padding of the result is zeros.

    Args:
        query: `[b, h, width, d]`, as are key and value with fewer heads where queries are grouped.
        key: `[b, hk, width, d]`.
        value: `[b, hk, width, d]`.
        documents: the tokens of each row.
        run: gets q, k and v `[rows, h, n, d]` of documents of one length, and the row of the first one.
    """
    groups = documents.by_length()
    width = query.shape[2]
    if len(groups) == 1 and groups[0][0] == width:
        return run(query, key, value, 0)
    out = query.new_zeros(*query.shape[:3], value.shape[-1])
    for length, members, rows in groups:
        q, k, v = (x[:, :, :length] if len(groups) == 1 else x[rows, :, :length] for x in (query, key, value))
        part = nn.functional.pad(run(q, k, v, members[0]), (0, 0, 0, width - length)).to(out.dtype)
        # copy the batch only if autograd needs it
        if part.requires_grad:
            out = out.index_copy(0, rows, part)
        else:
            out = out.index_copy_(0, rows, part)
    return out


def install(model: PreTrainedModel, settings: LayerAttention, name: str = ATTENTION) -> None:
    """Make every attention layer of `model` use our function. ModelError if nobody can choose it for this class.

    Args:
        model: is changed in place.
        settings: what our function knows about the model.
        name: of the function that the layers call.
    """
    layers = [module for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)]
    if not layers:
        raise ModelError(f"{type(model).__name__} has no attention layer whose function can be replaced.")
    for layer in layers:
        vars(layer)["longembed"] = settings
    try:
        model.set_attn_implementation(name)
    except ValueError as error:
        raise ModelError(
            f"the attention function of {type(model).__name__} cannot be replaced: {error}"
        ) from None


def probe_attention(model: PreTrainedModel, settings: LayerAttention, tokens: int = 8) -> list[LayerCall]:
    """The queries and keys of every attention call, for a text that repeats one token.

    In such a text all tokens have the same hidden state in every layer. So queries and keys of two tokens differ only
    because of their positions. ModelError if a layer never calls our function, or the model does not run with it.

    Args:
        model: has our attention function.
        settings: those of its layers.
        tokens: length of the text.
    """
    # not padding
    if getattr(model.config, "pad_token_id", None) == 3:
        token = 4
    else:
        token = 3
    ids = torch.full((1, tokens), token, device=next(model.parameters()).device)
    training = model.training
    settings.probe = []
    try:
        with torch.no_grad(), encoding(Documents([tokens], ids.device)):
            model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
        calls = settings.probe
    except LongEmbedError:
        raise
    except Exception as error:
        # the model's own code may raise anything: it needs something that our attention does not give
        raise ModelError(
            f"{type(model).__name__} does not run with our attention function, so it cannot be extended inside "
            f"attention: {type(error).__name__}: {error}."
        ) from error
    finally:
        settings.probe = None
        model.train(training)
    layers = getattr(model.config, "num_hidden_layers", len(calls))
    if len(calls) != layers:
        raise ModelError(
            f"{type(model).__name__} has {layers} layers, but {len(calls)} attention calls used our function: it "
            "cannot be extended inside attention."
        )
    return calls


AttentionInterface.register(ATTENTION, long_attention)
AttentionMaskInterface.register(ATTENTION, padding_mask)
AttentionInterface.register(PACKED, packed_attention)
# packed documents see nothing of one another without a mask
AttentionMaskInterface.register(
    PACKED, lambda *args, **kwargs: sdpa_mask(*args, **kwargs) if current_packed() is None else None
)


def attend_plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
    lengths: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention of each document over its own tokens: `[b, h, n, d]`.

    Args:
        q: `[b, h, n, d]`.
        k: `[b, hk, n, d]`, and `hk` divides `h`.
        v: as `k`.
        scale: of the scores.
        causal: whether a token sees only the tokens before it.
        window: a token sees tokens at a distance below it. None: all tokens.
        lengths: `[b]` real tokens. Without them rows of padding have no meaning.
        dropout: share of attention weights that are dropped.
    """
    n = q.shape[2]
    if window is not None and window >= n:
        window = None
    mask = None
    if lengths is not None and not causal:
        # padding is on the right, so a causal model never sees it
        mask = (torch.arange(n, device=q.device) < lengths[:, None])[:, None, None, :]
    if window is not None and dropout == 0 and mask is None:
        if q.requires_grad:
            k = repeat_heads(k, q)
            v = repeat_heads(v, q)
        return attend_tiles([(q, k, [band(n, window - 1, 0 if causal else window - 1)])], v, scale)
    if window is not None:
        at = torch.arange(n, device=q.device)
        distance = at[:, None] - at
        near = (distance < window) & (distance >= 0 if causal else distance > -window)
        if mask is not None:
            near = near & mask
        # a row of padding that has no real neighbour sees itself
        mask = near | ((distance == 0) & ~near.any(-1, keepdim=True))
        causal = False
    grouped = k.shape[1] != q.shape[1]
    if grouped and mask is not None:
        # with a mask, several devices have only a slow path for grouped queries
        k = repeat_heads(k, q)
        v = repeat_heads(v, q)
        grouped = False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )
