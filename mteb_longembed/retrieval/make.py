"""Build the scorer of a name, for `mteb run`, `search` and `compare`."""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import mteb
from mteb.models import MultiVectorWrapper, SparseEncoderWrapper
from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import EncoderProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper

from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.model import LongModel, LongMultiVectorEncoder, LongSparseEncoder
from mteb_longembed.errors import IncompatibleError, LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names import is_extended_name
from mteb_longembed.presets import LEXICAL, LEXICAL_SETTINGS
from mteb_longembed.values import Vectors

from .chunks import Chunker, NamedChunker, read_chunker
from .encoder import LongEncoder, model_in
from .encoding import Pass
from .expansion import QueryExpansion
from .hybrid import Hybrid
from .mteb_search import ForeignSearch, MTEBSearch
from .pass_scorer import PassScorer
from .passage_bm25 import VERSION, PassageBM25
from .scorer import Scorer, full_name, full_revision
from .settings import LEXICAL_WEIGHT, WINDOW, BM25Settings, SearchSettings, read_name, typed_name
from .sparse_scorer import SparseScorer
from .vector_scorer import VectorScorer

#: The object that mteb runs for an extended model.
LoadedModel = LongEncoder | SparseEncoderWrapper | MultiVectorWrapper | MTEBSearch


def make_scorer(name: str, device: str | None = None, chunker: Chunker | None = None) -> Scorer:
    """Return the scorer of a name: of an extended model, with or without search settings, or of any model of mteb's.

    Args:
        name: as for `mteb run -m`. A folder alone means `+none`, and `bm25` is ours.
        device: device of the model.
        chunker: a custom chunker, with one vector for each chunk.

    Raises:
        ModelError: if mteb cannot load the model.
    """
    if name == "bm25" and chunker is None:
        return make_bm25(BM25Settings())
    try:
        with translate_hub_errors():
            if chunker is not None:
                return _chunked(name, read_chunker(chunker), device)
            return scorer_of(mteb.get_model(name, device=device))
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error


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
    if encoded.similarity not in ("cosine", "dot") and not settings and encoded.cut is None:
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
    return Hybrid(parts, PassageBM25(bm25, expansion=expansion), settings.lexical_weight or LEXICAL_WEIGHT)


def make_bm25(settings: BM25Settings, device: str | None = None) -> PassageBM25:
    """Return the scorer of our BM25, with the model that expands queries.

    Raises:
        IncompatibleError: if that model does not embed texts.
    """
    meta = meta_of_bm25(settings)
    name = settings.encoder
    if name is None:
        return PassageBM25(settings, meta)
    encoder = encoder_in(mteb.get_model(name, device=device))
    model = model_in(encoder)
    is_dense = hasattr(encoder, "encode") and not isinstance(encoder, SparseEncoderWrapper)
    if not is_dense and not (isinstance(model, LongModel) and model.kind == "dense"):
        raise IncompatibleError(
            f"{LEXICAL} needs a dense model, which has one vector for a term, got {name!r}: give another model, or "
            f"use bm25:{LEXICAL_SETTINGS}."
        )
    encoded = Pass(lambda: encoder)
    return PassageBM25(settings, meta, QueryExpansion(partial(encoded.text_rows, encoded.represent())))


def meta_of_bm25(settings: BM25Settings) -> ModelMeta:
    """Return the metadata of our BM25: an experiment on mteb's baseline, or on the model that expands queries."""

    # mteb copies anything but functions
    def load(*_: Any, device: str | None = None, **__: Any) -> MTEBSearch:
        return MTEBSearch(make_bm25(settings, device))

    fields: dict[str, Any] = {"loader": load, "loader_kwargs": {}}
    if settings.encoder is None:
        fields["experiment_kwargs"] = {**settings.given, "algorithm": VERSION}
        return bm25_s.model_copy(update=fields)
    model = mteb.get_model_meta(settings.encoder, fetch_from_hf=True)
    known = dict(model.experiment_kwargs or {})
    experiment = {key: known[key] for key in known if key not in ("strategy", "target_len")}
    experiment |= {key: value for key, value in settings.given.items() if key not in ("expand", "of_base")}
    if f"window={settings.window}" == LEXICAL_SETTINGS:
        del experiment["window"]
    algorithm = "-".join(filter(None, [f"bm25_{bm25_s.revision}{VERSION}", known.get("algorithm")]))
    fields["experiment_kwargs"] = {**experiment, "strategy": LEXICAL, "algorithm": algorithm}
    # it reads whole documents by their terms
    for key in ("max_tokens", "embed_dim", "similarity_fn_name", "model_type"):
        fields[key] = getattr(bm25_s, key)
    return model.model_copy(update=fields)


def chunked_meta(name: str, chunker: NamedChunker) -> ModelMeta:
    """Return the metadata of a search over custom chunks, each encoded on its own. Nothing is loaded."""
    known = mteb.get_model_meta(name, fetch_from_hf=True)
    name_of_all = full_name(known)
    tail = re.sub(r"[^\w.-]", "-", name_of_all.rpartition("/")[2])
    fields = {
        "name": f"local/{chunker.name}-{tail}",
        "revision": f"{full_revision(known)}-chunks.{chunker.name}.{chunker.version}",
        "experiment_kwargs": None,
        "adapted_from": name_of_all,
        "loader": None,
    }
    return known.model_copy(update=fields)


def _chunked(name: str, chunker: NamedChunker, device: str | None) -> Scorer:
    meta = chunked_meta(name, chunker)
    settings = SearchSettings()
    if is_extended_name(name):
        spec, settings = read_name(name)
        name = typed_name(spec)
    model = mteb.get_model(name, device=device)
    scorer = searching(Pass(lambda: model, chunker.cut), None, settings)
    scorer.meta = meta
    return scorer
