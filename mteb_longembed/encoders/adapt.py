"""`adapt`: fit a model on a user's own documents, without training: corpus weights, then whitening."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.given import read_given
from mteb_longembed.names import Settings
from mteb_longembed.values import Power, read

from .backbone import LongTransformer
from .build import load_base, load_resolved, of_modules, settings_of, translate_errors
from .card import ADAPTED, adapted_card, facts_of, set_card
from .families import EmbeddingModel, family_of
from .identity import digest
from .method import Method
from .model import LongModelMixin, Model
from .pooling import Pooling
from .resolved import resolve
from .tokens import MAX_TOKENS, sample_texts
from .weights import RULES, TokenWeights, count_tokens
from .whitening import Whitening, sampled_rows

logger = logging.getLogger(__name__)

#: With fewer documents or windows, adapting helps unreliably, and hurts on some collections (docs/adapt.md).
FEW_DOCUMENTS = 12
FEW_WINDOWS = 50


def adapt(
    base: str | Path | Model,
    documents: Iterable[str],
    *,
    weights: Literal["idf", "sif"] | None = "idf",
    whiten: float = 0.5,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    device: str | None = None,
    show_progress_bar: bool = True,
) -> Model:
    """Fit a model on the documents that it will search. Nothing is trained, and no label is needed.

    First tokens are weighted by their corpus frequency (`weights`; only if the model averages its tokens). Then all
    vectors pass through an affine map, fitted on mean and covariance of the vectors of the documents, or of their
    windows if the model cuts them (`whiten`). A model with several vectors maps each. Without a strategy the result
    has sentence-transformers' own modules (Transformer, WordWeights, Pooling, Dense, Normalize), and a saved folder
    opens without this package.

    Source: Arora et al. 2017, ICLR (weights); Su et al. 2021, arXiv:2103.15316 (whitening), here with the counts and
        windows of the searched corpus.

    Args:
        base: a name such as `e5-base+ntk`, an alias, a hub id, a folder, or a loaded model, which is not changed (but
            moved, if `device` is given).
        documents: texts of the corpus, in any iterable. It is read once, and only the sample stays in memory: of a
            stream in random order, `itertools.islice` reads only a part.
        weights: `idf` (`ln((N + 1) / (n + 0.5))` of documents), `sif` (`a / (a + share of the token)`), or None.
        whiten: the power of the map, from 0 (no map) to 1 (full whitening).
        max_tokens: documents are sampled until they have this many tokens.
        seed: random seed of the sample.
        device: device of the model. Default: the best device of this machine.
        show_progress_bar: whether to show progress bars while documents are counted and encoded.

    Returns:
        A new model. Its revision is a digest of its weights and settings.

    Raises:
        InputError: if a setting breaks its rule, a document is not a text, or the documents have no token.
        NumberError: if a vector is not finite.
        LongEmbedError: for the same reasons as `load`.
    """
    if weights is not None and weights not in RULES:
        raise InputError(f"weights must be one of {', '.join(RULES)}, or None, got {weights!r}.")
    power = read("whiten", Power, whiten) if whiten else 0.0
    model = loaded(base, device)
    card = model.model_card_data
    known_as = str(card.model_name or card.base_model or ("model" if base is model else base))
    texts = _read(documents, model, max_tokens, seed)
    pooling = Pooling.of(model)
    if weights is not None and pooling.mode != "mean":
        logger.warning("the model has %s pooling, so tokens get no weights.", pooling.mode)
        weights = None
    if weights is not None:
        counts = count_tokens(model, texts, show=show_progress_bar)
        pooling = pooling.weighted(TokenWeights.of_corpus(counts, weights, model.tokenizer))
    if power:
        rows = window_vectors(with_pooling(model, pooling), texts, show=show_progress_bar)
        if len(texts) < FEW_DOCUMENTS or len(rows) < FEW_WINDOWS:
            logger.warning(
                "whitening was fitted on %d vectors of %d documents: below %d vectors or %d documents it may lose "
                "(docs/adapt.md).",
                len(rows),
                len(texts),
                FEW_WINDOWS,
                FEW_DOCUMENTS,
            )
        pooling = pooling.unscaled()
        pooling = replace(pooling, maps=(*pooling.maps, *Whitening.fit(rows, power).modules()))
    adapted = with_pooling(model, pooling, stock=True)
    if power and isinstance(adapted, SentenceTransformer):
        adapted.similarity_fn_name = "cosine"
    if not isinstance(adapted, LongModelMixin) and not pooling.has_exact_stock:
        logger.warning(
            "the base has a Dense with an activation behind its pooling, and stock modules count the weights of "
            "prompts: vectors of texts with a long prompt are not exact; adapt(load(%r), ...) gives exact ones.",
            known_as,
        )
    _describe(adapted, facts_of(model._model_card_text or ""), known_as, weights, power, len(texts))
    return adapted


def _read(documents: Iterable[str], model: Model, max_tokens: int, seed: int) -> list[str]:
    """Sample the texts to read; warn if some are left out."""
    every = read_given("documents", documents)
    texts, n_documents = sample_texts(every, model.max_seq_length, max_tokens, seed)
    if not any(text.strip() for text in texts):
        raise InputError(
            "adapting needs a corpus with at least 1 token, got 0: give documents that have text."
        )
    if len(texts) < n_documents:
        logger.warning(
            "adapting reads %s of %s documents, sampled with seed %d: they have max_tokens=%s tokens.",
            f"{len(texts):,}",
            f"{n_documents:,}",
            seed,
            f"{max_tokens:,}",
        )
    return texts


def loaded(base: str | Path | Model, device: str | None) -> Model:
    """Load the model: in sentence-transformers' own classes, unless its name requests a strategy."""
    if isinstance(base, (SentenceTransformer, MultiVectorEncoder)):
        check_dense(base)
        return base if device is None else base.to(device)
    if not isinstance(base, (str, Path)):
        raise InputError(
            f"adapt takes a name, a folder or a SentenceTransformer, got a {type(base).__name__}."
        )
    method = Method.parse_model(str(base))
    resolved = resolve(method)
    is_bare = Method(method.base, revision=method.revision) == method
    if is_bare and resolved.base.saved_strategy is None:
        with translate_errors(resolved.base):
            return check_dense(load_base(resolved.base, device))
    return check_dense(load_resolved(resolved, device))


def check_dense(model: EmbeddingModel) -> Model:
    """Return the model if it has vectors of whole texts, windows or spans, which can be adapted.

    Raises:
        IncompatibleError: for other models.
    """
    family = family_of(model)
    if family != "dense" or isinstance(model, SparseEncoder):
        raise IncompatibleError(f"adapt changes dense vectors, got a {family} model: use it as it is.")
    return model


def with_pooling(model: Model, pooling: Pooling, *, stock: bool = False) -> Model:
    """Return a model with the same backbone and another pooling. The original does not change.

    With `stock`, a model with a stock backbone gets only stock modules, so that it opens without this package.
    """
    backbone = model[0]
    if isinstance(backbone, LongTransformer):
        return of_modules([backbone, *pooling.modules(cuts=backbone.cuts)], model, str(model.device))
    modules = pooling.stock_modules() if stock else pooling.modules()
    return type(model)(modules=[backbone, *modules], device=str(model.device), **settings_of(model))


def window_vectors(model: Model, texts: list[str], *, show: bool = False) -> np.ndarray:
    """Encode the vectors to fit a map on, `[n, d]`: the model's own, or one per window if it pools windows into one.

    At most `MAX_VECTORS` are sampled. A name with `whiten=` fits its map on the same vectors, which a search has
    anyway.
    """
    backbone = model[0]
    pooling = Pooling.of(model).unscaled()
    if isinstance(backbone, LongTransformer) and backbone.cuts and pooling.vectors is None:
        pooling = replace(pooling, vectors="window")
    encoder = with_pooling(model, pooling)
    if isinstance(encoder, SentenceTransformer):
        encoder.truncate_dim = None  # a map is fitted on whole vectors; dimensions are cut after it
    vectors = [torch.as_tensor(rows) for rows in encoder.encode_document(texts, show_progress_bar=show)]
    every = torch.cat([torch.atleast_2d(rows).float().cpu() for rows in vectors]).numpy()
    return every[sampled_rows(len(every))]


def _describe(
    model: Model, facts: Settings, base: str, rule: str | None, power: float, n_documents: int
) -> None:
    """Describe the fit in the model's name and card, and set its revision to a digest of the model."""
    card = model.model_card_data
    short = base.replace("\\", "/").rstrip("/").rpartition("/")[2]
    parts = []
    if rule is not None:
        parts.append(f"tokens are weighted by their corpus frequency ({rule})")
    if power:
        parts.append(f"vectors are whitened (power {power:g})")
    how = f"{' and '.join(parts) or 'nothing was fitted'}, by {n_documents:,} documents"
    card.model_name = f"local/{short}-adapted"
    card.base_model = base
    card.base_model_revision = digest(model)
    card.add_tags([ADAPTED])
    if not isinstance(model, LongModelMixin):
        # sentence-transformers writes this instead of its own card
        set_card(model, adapted_card(card.model_name, base, how, facts))
