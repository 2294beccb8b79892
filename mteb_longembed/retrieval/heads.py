"""Heads of one of our models: what pools one pass in several ways. The only file here that knows how encoders do it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from mteb.models.abs_encoder import AbsEncoder, get_prompt_name
from mteb.types import PromptType
from sentence_transformers.sentence_transformer.modules import Normalize

from mteb_longembed.encoders.batching import Engine
from mteb_longembed.encoders.head import Head
from mteb_longembed.encoders.model import LongModel, LongModelMixin, LongSentenceTransformer, with_head
from mteb_longembed.encoders.tokens import draw
from mteb_longembed.encoders.vectors import check_averages
from mteb_longembed.encoders.weights import Rule, TokenCounts, TokenWeights, count_tokens, document_prompt
from mteb_longembed.names import Vectors

from .scorer import Documents

__all__ = ["LongModel", "Rule", "TokenCounts", "Vectors"]


def counted(model: LongModel, documents: Documents) -> TokenCounts:
    """The tokens of documents, or of as many drawn ones as `adapt` counts."""
    texts, _ = draw(map(str.strip, documents.texts), model.max_seq_length)
    return count_tokens(cast("Any", model), texts)


def check_weighable(model: Any) -> None:
    """Raise IncompatibleError if a model does not average the vectors of its tokens."""
    check_averages("weights", "the model", Head.of(model).mode)


def raw(
    model: LongModel, vectors: Vectors | None, rule: Rule | None = None, counts: TokenCounts | None = None
) -> LongModel:
    """The model that pools in another way. It shares the trunk. Its vectors have the length that the pooling gives.

    Args:
        model: with one vector a text; one with several keeps them.
        vectors: content tokens for each vector, or `window`; None for one vector.
        rule: of corpus weights; None for none.
        counts: the tokens of the corpus, which a rule needs.
    """
    head = model.head.unscaled()
    if rule is not None and counts is not None:
        head = head.weighted(TokenWeights.of_corpus(counts, rule, model.tokenizer))
    if vectors is not None and isinstance(model, LongSentenceTransformer):
        head = replace(head, vectors=vectors, dims=model.truncate_dim)
    return cast("LongModel", with_head(cast("Any", model), head))


def encode(
    models: Sequence[LongModel], texts: Sequence[str], kind: PromptType, documents: Documents, *, show: bool
) -> list[list[Any]]:
    """For each of these models, which share their first module, the vectors of all texts, from one pass."""
    first = models[0]
    options = documents.options
    with torch.inference_mode():
        task = {"task": "query" if kind == PromptType.query else "document"}
        prompt = _prompt_of(first, documents, kind)
        engine = Engine(models, prompt or None, options.get("batch_size", 32), task)
        engine.keep_in(first.store)
        done = engine.encode(texts, show=options.get("show_progress_bar", show))
    found = []
    for place, model in enumerate(models):
        dims = getattr(model, "truncate_dim", None)
        found.append([done[text][place][..., :dims] for text in texts])
    return found


def is_scaled(model: LongModelMixin) -> bool:
    """Whether the model's vectors have length 1."""
    head = model.head
    # several vectors may be scaled where they are grouped, or, as those of an adapted model, before
    is_grouped = head.vectors is not None and head.normalize
    return is_grouped or any(isinstance(module, Normalize) for module in head.behind)


def document_bytes(model: LongModel) -> int:
    """The bytes of the vectors of a document that is as long as the model reads, at most."""
    strategy = model.trunk.strategy
    step = model.head.vectors or strategy.target_len
    if step == "window":
        # pcw's windows, without special tokens; those of other strategies are as long as the trained length
        size = getattr(strategy, "size", strategy.trained_len)
        step = max(size - getattr(strategy, "overlap", 0) - 2, 1)
    return 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // int(step))


def _prompt_of(model: LongModel, documents: Documents, kind: PromptType) -> str | None:
    """The prompt of a task: the one that mteb gives the model, or else its own."""
    prompts, _ = AbsEncoder.validate_task_to_prompt_name(
        cast("dict[str, str]", model.prompts), raise_for_invalid_keys=False
    )
    if prompts:
        prompt = prompts.get(get_prompt_name(prompts, documents.metadata, kind) or "")
        if prompt is not None:
            return prompt
    if kind == PromptType.document:
        return document_prompt(model)
    return model.prompts.get("query")
