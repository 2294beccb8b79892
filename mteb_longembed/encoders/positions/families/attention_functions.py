"""Our attention function inside transformers models.

transformers makes a mask with the registered mask function, and passes it to the attention function. A name without
a mask function gets no mask at all, and the model would attend to padding. So we register both. Our mask is the
plain `[b, n]` padding mask, or None if nothing is padded. The attention function itself handles causality and
sliding windows, so no mask of size n x n is made for long documents.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import flash_attention_mask

from mteb_longembed.encoders.positions.attention.band import attend_band
from mteb_longembed.encoders.positions.attention.kernels import repeat_heads
from mteb_longembed.encoders.positions.attention.lengths import SequenceLengths, current, encoding
from mteb_longembed.encoders.positions.attention.self_extend import SelfExtendAttention
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.errors import LongEmbedError, ModelError

#: The name under which transformers knows our attention function.
ATTENTION = "longembed"
#: Padded documents up to this length in tokens share one mask of size n x n where a layer has a window, by kind of
#: device. Longer ones run one by one, in bands.
_WINDOWED_TOGETHER = {"cpu": 256}
_WINDOWED_TOGETHER_ELSEWHERE = 2048
#: The tokens of a text that shows how a model rotates.
_PROBED = 8
#: A layer, and the queries and keys with which it called our attention function.
LayerCall = tuple[nn.Module, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class LongAttention:
    """The attention of a model's layers: `[b, h, n, d]` in, `[b, n, h, d]` out.

    Args:
        strategy: scales queries by the document's length.
        relative: attention with changed relative positions, for documents beyond the trained length. None: they stay.
    """

    strategy: Strategy
    relative: SelfExtendAttention | None = None

    def __call__(
        self,
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
    ) -> Tensor:
        """Attention as transformers asks for it.

        ModelError if the model asks for something that our attention cannot do (soft capping, sinks, biases, a mask of
        another form). Without the error its embeddings would be wrong.
        """
        _check_supported(module, attention_mask, kwargs)
        causal = module.is_causal if is_causal is None else is_causal
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        window = self._window(sliding_window)
        lengths = lengths_of(attention_mask, query)
        # a layer with a window never sees more tokens than in training, so there is nothing to extend in it
        extends = window is None and lengths.longest > self.strategy.trained_len
        if extends:
            query, scale = self._scaled(query, scale, lengths, causal=causal)
        if extends and self.relative is not None:
            if dropout > 0:
                warnings.warn(
                    "this strategy changes relative positions, so its attention runs without dropout.",
                    stacklevel=2,
                )
            run = functools.partial(self.relative, scale=scale, causal=causal)
            out = each_document(run, query, key, value, lengths)
        else:
            out = attend_plain(
                query, key, value, lengths, scale=scale, causal=causal, window=window, dropout=dropout
            )
        return out.transpose(1, 2).contiguous()

    def _window(self, sliding_window: int | None) -> int | None:
        """The window of a layer in tokens, if it has an effect. None for full attention.

        In an extended model none has that is at least as large as the trained length: it had no effect in training.
        """
        least = self.strategy.trained_len if self.strategy.overrides() else self.strategy.target_len
        if sliding_window is None or sliding_window >= least:
            return None
        return sliding_window

    def _scaled(
        self, query: Tensor, scale: float, lengths: SequenceLengths, *, causal: bool
    ) -> tuple[Tensor, float]:
        """Queries and scale with the factors of log-n scaling. In a causal model token i sees i + 1 tokens."""
        strategy = self.strategy
        if not strategy.logn:
            return query, scale
        n = lengths.n
        if causal:
            seen = torch.arange(1, query.shape[2] + 1)
            make = lambda: strategy.query_factor(n[:, None], seen)[:, None, :, None]  # noqa: E731
        elif lengths.are_all(lengths.longest):
            # one factor for all documents: as part of the scale it costs nothing
            return query, scale * float(strategy.query_factor(n[0]))
        else:
            make = lambda: strategy.query_factor(n)[:, None, None, None]  # noqa: E731
        factors = lengths.on_device(("query factor", causal), make)
        return (query * factors).to(query.dtype), scale


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


def lengths_of(mask: Tensor | None, query: Tensor) -> SequenceLengths:
    """The lengths of the documents in the forward pass, or those of the padding mask outside one of ours."""
    lengths = current()
    if lengths is not None:
        return lengths
    if mask is None:
        return SequenceLengths([query.shape[2]] * len(query), query.device)
    return SequenceLengths(mask.sum(1).tolist(), query.device)


def padding_mask(attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """The plain padding mask `[b, n]`. None without padding, which the host knows."""
    lengths = current()
    if lengths is None:
        return flash_attention_mask(attention_mask=attention_mask, **kwargs)
    if attention_mask is None or lengths.are_all(attention_mask.shape[-1]):
        return None
    return attention_mask


def each_document(
    run: Callable[[Tensor, Tensor, Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor, lengths: SequenceLengths
) -> Tensor:
    """Attention that takes no padding, for each document alone: `[b, h, n, d]`, with zeros for padding.

    Documents of one length run together. `q` is `[b, h, n, d]`, `k` and `v` are `[b, hk, n, d]`.
    """
    width = q.shape[2]
    if lengths.are_all(width):
        return run(q, k, v)
    parts = []
    for row, n in enumerate(lengths.lengths):
        part = run(q[row, None, :, :n], k[row, None, :, :n], v[row, None, :, :n])
        parts.append(F.pad(part, (0, 0, 0, width - n)))
    return torch.cat(parts)


def attend_plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: SequenceLengths,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention of each document over its own tokens: `[b, h, n, d]`, with any numbers in padding.

    `q` is `[b, h, n, d]`, `k` and `v` are `[b, hk, n, d]`, and `hk` divides `h`; padding is on the right. A token sees
    tokens at a distance below `window`, or all of them.
    """
    n = q.shape[2]
    real = None
    # padding is on the right, so a causal model never sees it
    if not causal and not lengths.are_all(n):
        real = lengths.on_device("real", lambda: torch.arange(n) < lengths.n[:, None])[:, None, None, :]
    if window is None or window >= n:
        return _attend_masked(q, k, v, real, scale, causal=causal, dropout=dropout)
    together = _WINDOWED_TOGETHER.get(q.device.type, _WINDOWED_TOGETHER_ELSEWHERE)
    if dropout > 0 or (real is not None and lengths.longest <= together):
        near = _near(n, window, real, q.device, causal=causal)
        return _attend_masked(q, k, v, near, scale, causal=False, dropout=dropout)
    before = window - 1
    after = 0 if causal else before

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_band(q, k, v, scale=scale, left=before, right=after)[0]

    if real is None:
        return run(q, k, v)
    return each_document(run, q, k, v, lengths)


def _near(n: int, window: int, real: Tensor | None, device: torch.device, *, causal: bool) -> Tensor:
    """Which tokens a token sees in a window: `[1, 1, n, n]`, with padding `[b, 1, n, n]`."""
    at = torch.arange(n, device=device)
    distance = at[:, None] - at
    near = (distance < window) & (distance >= 0 if causal else distance > -window)
    if real is not None:
        near = near & real
    # a row of padding that has no real neighbour sees itself
    return near | ((distance == 0) & ~near.any(-1, keepdim=True))


def _attend_masked(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, *, causal: bool, dropout: float
) -> Tensor:
    """torch's attention in one call. With a mask, several devices have only a slow path for grouped queries."""
    grouped = k.shape[1] != q.shape[1]
    if grouped and mask is not None:
        k = repeat_heads(k, q)
        v = repeat_heads(v, q)
        grouped = False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def install(model: PreTrainedModel, attention: Callable[..., Tensor]) -> None:
    """Make every attention layer of `model` use our function. ModelError if nobody can choose it for this class."""
    layers = [module for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)]
    if not layers:
        raise ModelError(f"{type(model).__name__} has no attention layer whose function can be replaced.")
    for layer in layers:
        vars(layer)["longembed"] = attention
    try:
        model.set_attn_implementation(ATTENTION)
    except ValueError as error:
        raise ModelError(
            f"the attention function of {type(model).__name__} cannot be replaced: {error}"
        ) from None


def install_and_probe(model: PreTrainedModel, attention: LongAttention) -> list[LayerCall]:
    """As `install`. Returns the queries and keys of every attention call, for a text that repeats one token.

    In such a text all tokens have the same hidden state in every layer. So queries and keys of two tokens differ only
    because of their positions. ModelError if a layer never calls our function, or the model does not run with it.
    """
    calls: list[LayerCall] = []

    def recorded(module: nn.Module, query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        calls.append((module, query, key))
        return attention(module, query, key, *args, **kwargs)

    install(model, recorded)
    token = 3
    if getattr(model.config, "pad_token_id", None) == token:  # padding is masked
        token = 4
    ids = torch.full((1, _PROBED), token, device=next(model.parameters()).device)
    training = model.training
    try:
        with torch.no_grad(), encoding(SequenceLengths([_PROBED], ids.device)):
            model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    except LongEmbedError:
        raise
    except Exception as error:
        # the model's own code may raise anything: it needs something that our attention does not give
        raise ModelError(
            f"{type(model).__name__} does not run with our attention function, so it cannot be extended inside "
            f"attention: {type(error).__name__}: {error}."
        ) from error
    finally:
        install(model, attention)
        model.train(training)
    layers = getattr(model.config, "num_hidden_layers", len(calls))
    if len(calls) != layers:
        raise ModelError(
            f"{type(model).__name__} has {layers} layers, but {len(calls)} attention calls used our function: it "
            "cannot be extended inside attention."
        )
    return calls


def long_attention(module: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """What transformers calls: the attention of the layer, and no attention weights."""
    return module.longembed(module, *args, **kwargs), None


AttentionInterface.register(ATTENTION, long_attention)
AttentionMaskInterface.register(ATTENTION, padding_mask)
