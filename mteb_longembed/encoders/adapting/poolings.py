"""Other poolings of a model's tokens: corpus weights, a vector for each window, vectors before their last scaling."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer, WordWeights
from torch import nn

from mteb_longembed.encoders.building import settings_of
from mteb_longembed.encoders.checkpoints.base import Vectors
from mteb_longembed.encoders.model import LongModelMixin, LongMultiVectorEncoder
from mteb_longembed.encoders.modules.span_pooling import GroupByDocument, SpanPooling
from mteb_longembed.encoders.modules.token_weights import Rule, TokenCounts, TokenWeights, weights_of
from mteb_longembed.encoders.modules.transformer import LongTransformer
from mteb_longembed.errors import IncompatibleError

#: A model of sentence-transformers' own, or one of ours.
Model = SentenceTransformer | MultiVectorEncoder


def pooling_of(model: Model) -> nn.Module | None:
    """The module behind the transformer, if there is one."""
    if len(model) < 2:
        return None
    return model[1]


def check_weighable(model: Model) -> None:
    """Raise IncompatibleError if a model does not average the vectors of its tokens."""
    pooling = pooling_of(model)
    if isinstance(pooling, WordWeights):
        raise IncompatibleError("the model has corpus weights already: adapt its base, or leave out weights.")
    if not isinstance(model[0], Transformer) or not isinstance(pooling, Pooling):
        kind = "no pooling of tokens" if pooling is None else f"a {type(pooling).__name__} in its place"
    elif pooling.pooling_mode != "mean":
        kind = f"{pooling.pooling_mode} pooling"
    else:
        return
    raise IncompatibleError(
        f"corpus weights need a model that averages its tokens, got one with {kind}: leave out weights; whiten works "
        "with every pooling."
    )


def weighted(model: Model, counts: TokenCounts, rule: Rule) -> Model:
    """The model with corpus weights before its pooling. It shares the transformer with `model`, which stays as it is.

    Raises:
        IncompatibleError: if the model does not average the vectors of its tokens.
        InputError: if no token was counted.
    """
    check_weighable(model)
    first, pooling, *others = list(model)
    weights = weights_of(counts, rule, model.tokenizer)
    counted = f"{rule} of {counts.n_tokens:,} tokens in {counts.n_documents:,} documents"
    table = TokenWeights.of(weights, model.tokenizer, counted)
    # a prompt stands before every text and says nothing about it
    pooling = copy.copy(cast("Pooling", pooling))
    pooling.include_prompt = False
    return remade(model, [first, table, pooling, *others])


def unscaled(model: Model) -> Model:
    """The model whose vectors have the length that its pooling gives them, which whitening needs."""
    modules = list(model)
    end: list[nn.Module] = []
    last = modules[-1]
    if isinstance(last, GroupByDocument):
        modules.pop()
        end = [GroupByDocument(normalize=False, dims=last.dims)]
    while isinstance(modules[-1], Normalize):
        modules.pop()
    return remade(model, [*modules, *end])


def fitted(model: Model, counts: Callable[[], TokenCounts], rule: Rule | None, power: float | None) -> Model:
    """The model whose vectors a search maps: with corpus weights, if there is a rule, and unscaled, if there is a map.

    One of sentence-transformers' own modules scales as it does: a search scales what it maps.
    """
    if rule is not None:
        model = weighted(model, counts(), rule)
    if power and isinstance(model, LongModelMixin):
        model = unscaled(cast("Model", model))
    return model


def by_window(model: LongModelMixin, vectors: Vectors = "window") -> LongMultiVectorEncoder:
    """A model of `pcw` with one vector for each window, or for so many tokens of a window."""
    modules: list[nn.Module] = []
    for module in model:
        if isinstance(module, Pooling):
            module = SpanPooling(**module.get_config_dict(), vectors=vectors)
        modules.append(module)
    scales = any(isinstance(module, Normalize) for module in model)
    settings = settings_of(model)
    settings.pop("similarity_fn_name")
    modules.append(GroupByDocument(normalize=scales, dims=settings.pop("truncate_dim")))
    modules[0] = copy.copy(modules[0])
    made = LongMultiVectorEncoder(modules=modules, device=str(model.device), **settings)
    if model.checkpoint is not None:
        spec = replace(model.checkpoint.spec, vectors=vectors)
        made.remember(replace(model.checkpoint, spec=spec))
        made.store = model.store
    return made


def remade(model: Model, modules: list[nn.Module]) -> Model:
    """A model of the same kind with other modules. Its rows in the store have keys of their own."""
    if isinstance(modules[0], LongTransformer):
        # the constructor tells the transformer what follows it, and the given model keeps its own
        modules[0] = copy.copy(modules[0])
    made: Any = type(model)(modules=modules, device=str(model.device), **settings_of(model))
    if isinstance(model, LongModelMixin) and model.checkpoint is not None and model.is_unchanged():
        made.remember(model.checkpoint)
        made.store = model.store
    return cast("Model", made)
