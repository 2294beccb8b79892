"""A checkpoint is built into a model: its base is loaded, and its positions are swapped."""

from dataclasses import replace

from sentence_transformers import SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sparse_encoder.modules import SpladePooling
from torch import nn

from mteb_longembed.errors import IncompatibleError
from mteb_longembed.names import Settings

from .backbone import LongTransformer
from .card import card_data, facts_in
from .checkpoint import Checkpoint
from .head import Head, as_transformer, reader_of
from .load_base import check_loaded, load_base, loading_options, translate_errors
from .model import OWNERS, LongModel, LongMultiVectorEncoder, of_modules, settings_of
from .vectors import GroupByDocument, LongPooling
from .weights import TokenWeights
from .whole import JoinWindows, LongSpladePooling

#: The classes that our saved models may name, beside sentence-transformers' own.
_CLASSES = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (LongTransformer, LongPooling, GroupByDocument, TokenWeights, JoinWindows, LongSpladePooling)
}


def load_checkpoint(
    checkpoint: Checkpoint, device: str | None = None, model_kwargs: Settings | None = None
) -> LongModel:
    """Load the model of a checkpoint from files and put its strategy inside.

    Raises:
        ModelError: if the base cannot be loaded, or is of a kind that we do not know how to change.
    """
    base = checkpoint.base
    with translate_errors(base):
        if base.made is None:
            stock = load_base(base, device, checkpoint.spec.dtype, model_kwargs)
            return extended(stock, checkpoint, device)
        owner = OWNERS[base.kind] if base.vectors is None else LongMultiVectorEncoder
        options = loading_options(base, checkpoint.spec.dtype, model_kwargs)
        path = base.files.path
        model = owner._load_with_module_classes(path, _CLASSES, device=device, **options)
        check_loaded(model.backbone, path)
        model.backbone.base_facts = facts_in(model._model_card_text)
    model.remember(checkpoint)
    return model


def extended(base: BaseModel, checkpoint: Checkpoint, device: str | None) -> LongModel:
    """Build the model on a private base: swap the positions of its transformer, and pool windows in its head."""
    kind = checkpoint.base.kind
    first = LongTransformer.of(as_transformer(reader_of(base)))
    first.extend(checkpoint.strategy)
    step = checkpoint.base.entry.interpolation
    if step is not None and first.table is not None:
        # documents up to the trained length read each `step`-th row of a table that is interpolated already
        first.table.keep(first.table.weight.detach(), step)
        first.config.max_position_embeddings = len(first.table.weight)
    first.base_facts = facts_in(base._model_card_text) or first.base_facts
    first.base_name, first.base_revision = checkpoint.base.name, checkpoint.base.files.commit
    settings = settings_of(base)
    head = Head.of(base)
    vectors = checkpoint.spec.vectors if kind == "dense" else None
    if vectors is not None:
        # the model compares by cosine, unless it says dot
        similarity = settings.pop("similarity_fn_name")
        dims = settings["truncate_dim"]
        head = replace(head, vectors=vectors, normalize=similarity != "dot", dims=dims)
    modules = [first, *head.modules(cuts=first.cuts)] if kind == "dense" else _whole(base, first)
    made = of_modules(modules, settings, device or str(base.device), kind)
    if vectors is None:
        card_data(made).add_tags(card_data(base).tags or [])
    made.remember(checkpoint)
    return made


def _whole(base: BaseModel, first: LongTransformer) -> list[nn.Module]:
    """Return the modules of a late-interaction or sparse model, where windows become whole texts again."""
    modules = list(base)
    poolings = [part for part in base.modules() if isinstance(part, SpladePooling)]
    for pooling in poolings:
        # otherwise the first batch would set it and change the model
        pooling.embedding_dimension = first.config.vocab_size
    if not first.cuts:
        return modules
    if not first.has_logits and isinstance(base, SparseEncoder):
        return [first, *Head.of(base).modules(cuts=True)]
    if not first.has_logits:
        return [first, JoinWindows(), *modules[1:]]
    names = [type(part).__name__ for part in poolings]
    if [type(part) for part in poolings] != [SpladePooling]:
        raise IncompatibleError(
            f"windows of a model with logits need one SpladePooling, got {', '.join(names) or 'none'}: use another "
            "strategy."
        )
    poolings[0].__class__ = LongSpladePooling
    return modules
