"""The models of a search: another head on a model's trunk, with weights of the corpus or a vector for each window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mteb_longembed.encoders.heads.grouping import Vectors
from mteb_longembed.encoders.heads.head import Head, check_averages
from mteb_longembed.encoders.heads.weights import Rule, TokenCounts, TokenWeights, weights_of
from mteb_longembed.encoders.model import LongModelMixin, with_head


def check_weighable(model: Any) -> None:
    """Raise IncompatibleError if a model does not average the vectors of its tokens."""
    check_averages("weights", "the model", Head.of(model).mode)


def fitted(model: Any, counts: Callable[[], TokenCounts], rule: Rule | None, power: float | None) -> Any:
    """The model whose vectors a search maps: with corpus weights if there is a rule, unscaled if there is a map."""
    head = Head.of(model)
    changed = head
    if rule is not None:
        known = counts()
        counted = f"{rule} of {known.n_tokens:,} tokens in {known.n_documents:,} documents"
        table = TokenWeights.of(weights_of(known, rule, model.tokenizer), model.tokenizer, counted)
        changed = changed.weighted(table)
    if power and isinstance(model, LongModelMixin):
        changed = changed.unscaled()
    if changed is head:
        return model
    return with_head(model, changed)


def by_window(model: Any, vectors: Vectors = "window") -> Any:
    """The model with one vector for each window, or for so many tokens. They have the scale of the model's own."""
    head = Head.of(model)
    scales = head.behind != head.unscaled().behind
    similarity = "cosine" if scales else "dot"
    return with_head(model, head.several(vectors, similarity))


@contextmanager
def pooled_too(model: Any, others: Sequence[Any]) -> Iterator[None]:
    """Inside, what a model encodes for the store is pooled for the others too, and their rows are kept."""
    if model is None:
        yield
        return
    model.also = others
    try:
        yield
    finally:
        model.also = ()
