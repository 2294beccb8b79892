"""Build scorers of loaded models, for `mteb run`, `search` and `compare`."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from mteb.models import MultiVectorWrapper, SparseEncoderWrapper
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import EncoderProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper

from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.model import LongModel, LongMultiVectorEncoder, LongSparseEncoder
from mteb_longembed.errors import ModelError
from mteb_longembed.values import Vectors

from .encoder import LongEncoder
from .encoding import Pass
from .expansion import QueryExpansion
from .hybrid import Hybrid
from .mteb_search import ForeignSearch, MTEBSearch
from .pass_scorer import PassScorer
from .passage_bm25 import PassageBM25
from .scorer import Scorer
from .settings import LEXICAL_WEIGHT, WINDOW, BM25Settings, SearchSettings
from .sparse_scorer import SparseScorer
from .vector_scorer import VectorScorer

#: The object that mteb runs for an extended model.
LoadedModel = LongEncoder | SparseEncoderWrapper | MultiVectorWrapper | MTEBSearch


def scorer_of(model: Any) -> Scorer:
    """Return mteb's object for a name as a scorer.

    Raises:
        ModelError: if it neither embeds nor searches.
    """
    if isinstance(model, MTEBSearch):
        return model.scorer
    if isinstance(model, SparseEncoderWrapper) and not isinstance(model.model, LongSparseEncoder):
        return ForeignSearch(SearchEncoderWrapper(cast("EncoderProtocol", model)))
    is_late = isinstance(model, MultiVectorWrapper) and isinstance(model.model, LongMultiVectorEncoder)
    if is_late or hasattr(model, "encode"):
        return searching(Pass(lambda: model), None, SearchSettings())
    if not hasattr(model, "index"):
        raise ModelError(f"search needs a model that embeds or searches, got {model.mteb_model_meta.name}.")
    return ForeignSearch(model)


def encoder_in(model: Any) -> Any:
    """Return the encoder inside mteb's object for a name; the object itself if there is none."""
    if isinstance(model, MTEBSearch) and isinstance(model.scorer, PassScorer):
        return model.scorer.encoded.load()
    return model


def loaded_search(model: LongModel, settings: SearchSettings) -> LoadedModel:
    """Return the object that mteb runs for an extended model: an encoder, or a search if the name requests one."""
    vectors = None
    if model.kind != "dense" and model.checkpoint is not None:
        vectors = model.checkpoint.vectors
    inner: LoadedModel | SimpleNamespace
    if isinstance(model, LongSparseEncoder):
        inner = SparseEncoderWrapper(model)
        if not settings and vectors is None:
            return inner
    elif isinstance(model, LongMultiVectorEncoder):
        is_late = model.kind == "late-interaction"
        if is_late and not settings and vectors is None:
            return MultiVectorWrapper(model)
        if not is_late:  # a vector for each token would take 50 MB per document
            model.embedding_cache = EmbeddingCache.from_environment()
        # the attributes of mteb's encoders, without `encode`
        meta = ModelMeta.from_multi_vector_encoder_model(model)
        inner = SimpleNamespace(model=model, mteb_model_meta=meta)
    else:
        inner = LongEncoder(model)
        if not settings:
            return inner
    return MTEBSearch(searching(Pass(lambda: inner), vectors, settings))


def searching(encoded: Pass, vectors: Vectors | None, settings: SearchSettings) -> Scorer:
    """Return the scorer over a pass that a name requests.

    Args:
        encoded: the pass.
        vectors: content tokens per vector, `window`, or None for one vector per document.
        settings: search settings.

    Raises:
        IncompatibleError: if a setting does not fit the model.
    """
    if encoded.similarity not in ("cosine", "dot") and not settings:
        return ForeignSearch(SearchEncoderWrapper(cast("EncoderProtocol", encoded.load())))
    scorer: PassScorer
    if encoded.kind == "sparse":
        scorer = SparseScorer(encoded, vectors, settings)
    else:
        scorer = VectorScorer(encoded, vectors, settings)
    if settings.fusion is None:
        return scorer
    parts = [scorer]
    if settings.weights or settings.whiten:
        plain = replace(settings, weights=None, whiten=None)
        parts.insert(0, VectorScorer(encoded, vectors, plain))
    # BM25 scores by sentence if the vectors do, and the model itself expands queries
    bm25 = BM25Settings(window=WINDOW, query="sentences" if settings.query == "sentences" else None)
    expansion = None
    if encoded.kind == "dense":  # others embed no terms
        expansion = QueryExpansion(partial(encoded.text_rows, parts[0].representation))
    hybrid = Hybrid(parts, PassageBM25(bm25, expansion=expansion), settings.lexical_weight or LEXICAL_WEIGHT)
    hybrid.lexical.store_as(parts[0].representation.precision)
    return hybrid
