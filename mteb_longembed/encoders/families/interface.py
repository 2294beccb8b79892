"""Our attention function inside transformers models: lengths from the padding mask, strategies per layer.

transformers hands the mask of the registered mask function to the attention function. A name that is
registered as an attention function only gets no mask at all, and padding would be attended to; so both are
registered. The mask is the plain `[b, n]` padding mask, or None where nothing is padded: causality and
sliding windows are up to the attention function, and no mask of size n x n is ever made.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import flash_attention_mask

from mteb_longembed.encoders.attention.plain import attend_plain
from mteb_longembed.encoders.attention.plan import PlannedAttention
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import LongEmbedError, ModelError

#: The name under which transformers knows our attention function.
ATTENTION = "longembed"
#: Documents up to this length share one masked kernel call; longer ones run in groups of equal length, since
#: a mask costs a fifth of a long call.
_MASKED_UP_TO = 256


@dataclass
class LayerAttention:
    """What our attention function knows about the layers of one model (all of them share it).

    Args:
        strategy: scales queries by the document's length.
        planned: changed relative positions of long documents, or None.
        keep_windows: whether sliding windows at or beyond the trained length, which training never felt,
            stay. Those at or beyond the target cut nothing.
        trial: layers with their queries and keys that a trial pass reached; None outside it.
    """

    strategy: Strategy
    planned: PlannedAttention | None = None
    keep_windows: bool = False
    trial: list[tuple[nn.Module, Tensor, Tensor]] | None = field(default=None, repr=False)

    def state_of_numbers(self, *, short: bool) -> object:
        """What decides about embeddings, of inputs up to the trained length alone where `short`."""
        if short:
            return None
        return [self.keep_windows, None if self.planned is None else self.planned.rotation]


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
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention contract: `[b, h, n, d]` in, `[b, n, h, d]` out.

    Raises:
        ModelError: if the model asks for something that would change its attention silently (soft capping,
            sinks, biases, a mask of another form).
    """
    settings: LayerAttention = module.longembed
    for name in ("softcap", "s_aux", "position_bias", "cache"):
        if kwargs.get(name) is not None:
            raise ModelError(
                f"{type(module).__name__} uses {name} in attention, which extended models cannot do."
            )
    if attention_mask is not None and attention_mask.ndim != 2:
        raise ModelError(
            f"attention takes a padding mask [b, n], got one of shape {tuple(attention_mask.shape)}: the "
            "extended model's forward takes tokenised texts only."
        )
    if settings.trial is not None:
        settings.trial.append((module, query, key))
    strategy = settings.strategy
    causal = module.is_causal if is_causal is None else is_causal
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    window = sliding_window
    if window is not None and window >= (
        strategy.target_len if settings.keep_windows else strategy.trained_len
    ):
        window = None
    b, _, width, _ = query.shape
    lengths = None if attention_mask is None else attention_mask.sum(1)
    n = torch.full((b,), width) if lengths is None else lengths.cpu()
    # A sliding layer sees as many tokens as in training, however long the document: nothing to extend in it.
    factor = strategy.query_scale(n) if window is None else torch.ones(b)
    planned = settings.planned if window is None else None
    if causal and window is None and strategy.logn and bool((n > strategy.trained_len).any()):
        seen = torch.arange(1, width + 1)
        rows = strategy.query_scale(n[:, None], seen).to(query.device)
        query = (query * rows[:, None, :, None]).to(query.dtype)
        factor = torch.ones(b)
    longest = int(n.max())
    if lengths is not None and longest <= min(_MASKED_UP_TO, strategy.trained_len):
        if bool((factor != 1).any()):
            query = (query * factor.to(query.device)[:, None, None, None]).to(query.dtype)
        out = attend_plain(
            query, key, value, scale=scale, causal=causal, window=window, lengths=lengths, dropout=dropout
        )
    else:

        def run(q: Tensor, k: Tensor, v: Tensor, first: int) -> Tensor:
            # all documents of one length have one factor, so that it costs nothing as part of the scale
            scaled = scale * float(factor[first])
            if planned is None or q.shape[2] <= strategy.trained_len:
                return attend_plain(q, k, v, scale=scaled, causal=causal, window=window, dropout=dropout)
            if dropout > 0:
                warnings.warn(
                    "attention dropout is left out where relative positions are planned.", stacklevel=2
                )
            return planned(q, k, v, scale=scaled, causal=causal)

        out = each_length(query, key, value, n, run)
    return out.transpose(1, 2).contiguous(), None


def each_length(
    query: Tensor, key: Tensor, value: Tensor, n: Tensor, run: Callable[[Tensor, Tensor, Tensor, int], Tensor]
) -> Tensor:
    """Run the documents of each length together, without their padding.

    Args:
        query: `[b, h, width, d]`; key and value likewise.
        n: `[b]` tokens of each document, on the CPU.
        run: attention over `[rows, h, n, d]` documents of one length; gets the first one's row as well.

    Returns:
        `[b, h, width, d]`, zeros where there is padding.
    """
    groups: dict[int, list[int]] = {}
    for row, length in enumerate(n.tolist()):
        groups.setdefault(length, []).append(row)
    out: Tensor | None = None
    for length, members in groups.items():
        if len(groups) == 1:
            q, k, v = (x[:, :, :length] for x in (query, key, value))
            part = run(q, k, v, 0)
            if length == query.shape[2]:
                return part
        else:
            rows = torch.tensor(members, device=query.device)
            q, k, v = (x[rows, :, :length] for x in (query, key, value))
            part = run(q, k, v, members[0])
        if out is None:
            out = query.new_zeros(*query.shape[:3], value.shape[-1])
        padded = nn.functional.pad(part, (0, 0, 0, query.shape[2] - length)).to(out.dtype)
        at = torch.tensor(members, device=query.device)
        # memory for a copy of the batch only where autograd needs it
        out = out.index_copy(0, at, padded) if padded.requires_grad else out.index_copy_(0, at, padded)
    if out is None:
        raise ModelError("attention over an empty batch.")
    return out


def install(model: PreTrainedModel, settings: LayerAttention, name: str = ATTENTION) -> None:
    """Let every attention layer of `model` go through our function.

    Raises:
        ModelError: if the model's class does not let its attention function be chosen.
    """
    layers: list[Any] = [
        module for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)
    ]
    if not layers:
        raise ModelError(f"{type(model).__name__} has no attention layers whose function can be chosen.")
    for layer in layers:
        layer.longembed = settings
    try:
        model.set_attn_implementation(name)
    except ValueError as error:
        raise ModelError(
            f"{type(model).__name__} does not let its attention function be chosen: {error}"
        ) from None


def trial(
    model: PreTrainedModel, settings: LayerAttention, tokens: int = 8
) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """Queries and keys of every attention call of one forward pass over a text of one token repeated.

    In such a text all tokens have the same hidden state in every layer, so queries and keys differ between
    tokens by their positions alone.

    Raises:
        ModelError: if some attention layer never came to our function, or the model does not run through it.
    """
    try:
        embeddings: Any = model.get_input_embeddings()
    except NotImplementedError:
        embeddings = None
    if not isinstance(getattr(embeddings, "num_embeddings", None), int):
        raise ModelError(f"{type(model).__name__} has no table of token embeddings: it is no model of texts.")
    vocabulary: int = embeddings.num_embeddings
    token = next(
        i
        for i in range(min(3, vocabulary - 1), vocabulary)
        if i != getattr(model.config, "pad_token_id", None)
    )
    ids = torch.full((1, tokens), token, device=next(model.parameters()).device)
    training = model.training
    settings.trial = []
    try:
        with torch.no_grad():
            model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
        calls = settings.trial
    except LongEmbedError:
        raise
    except Exception as error:
        # whatever a model's own code raises: it asks for something that the chosen attention does not give
        raise ModelError(
            f"{type(model).__name__} does not run through a chosen attention function, so it cannot be extended "
            f"inside attention: {type(error).__name__}: {error}."
        ) from error
    finally:
        settings.trial = None
        model.train(training)
    layers = getattr(model.config, "num_hidden_layers", len(calls))
    if len(calls) != layers:
        raise ModelError(
            f"{type(model).__name__} runs {layers} layers, but {len(calls)} of them came to the chosen "
            "attention function: it cannot be extended inside attention."
        )
    return calls


AttentionInterface.register(ATTENTION, long_attention)
AttentionMaskInterface.register(ATTENTION, flash_attention_mask)
