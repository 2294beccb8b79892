"""Make the scorer that a name requests, for `search`, `index` and `compare`. mteb is asked only for its own models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mteb_longembed.encoders.method import BM25_VERSION, LEXICAL_WEIGHT, MTEB_BM25_VERSION, Method
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.resolved import Resolved, resolve
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.names import BM25, MTEB_BM25, Identity, is_extended_name
from mteb_longembed.presets import LEXICAL, LEXICAL_SETTINGS
from mteb_longembed.values import Vectors
from mteb_longembed.zoo import holds_model

from .encoder import load_encoder
from .encoding import Encoding
from .expansion import QueryExpansion
from .index import Index, identity_of_bm25
from .passage_bm25 import PassageBM25
from .scorer import Scorer
from .sparse_scorer import SparseScorer
from .vector_scorer import VectorScorer

#: Words of a BM25 window. Consecutive windows share half of them.
WINDOW = 200


def make_scorer(name: str, device: str | None = None) -> Scorer:
    """Return the scorer of a name: of an extended model, with or without search settings, or of any model of mteb's.

    Args:
        name: as for `mteb run -m`. A folder alone means `+none`, and `bm25` is ours.
        device: device of the model.

    Raises:
        LongEmbedError: if the name is invalid, does not fit its base, or the base cannot be loaded.
        HubError: if the hub cannot be reached, and the cache lacks the model.
        ModelError: if mteb cannot load the model.
    """
    if not is_own(name):
        from .mteb_models import load_from_mteb

        return load_from_mteb(name, device)
    method = Method.parse(name)
    if method.is_bm25:
        return make_bm25(method, device)
    resolved = resolve(method)
    return search_over(Encoding(load_encoder(resolved, device)), resolved)


def is_own(name: str) -> bool:
    """Return whether we make the scorer of a name: of an extended model, of the folder of a model, or of BM25."""
    return name == BM25 or is_extended_name(name) or holds_model(name)


def search_over(encoding: Encoding, resolved: Resolved) -> Scorer:
    """Return the search over an encoding that a method requests.

    A model that compares vectors by another function, such as a distance, is searched as mteb does.

    Raises:
        IncompatibleError: if such a model has settings of a search.
    """
    is_compared = encoding.encoder.similarity in ("cosine", "dot")
    if is_compared or resolved.method.search or encoding.ours is None:
        return index_over(encoding, resolved)
    from .mteb_models import search_as_mteb

    return search_as_mteb(encoding.ours.model, resolved.identity)


def index_over(encoding: Encoding, resolved: Resolved) -> Index:
    """Return the index of an encoding that a method requests. Its poolings are registered with the encoding.

    Raises:
        IncompatibleError: if the model compares vectors neither by cosine nor by dot product.
    """
    method = resolved.method
    vectors = resolved.vectors
    parts = [_vectors(encoding, vectors, method)]
    if method.fusion is None:
        return Index(resolved.identity, parts)
    if method.weights or method.whiten:
        parts.insert(0, _vectors(encoding, vectors, replace(method, weights=None, whiten=None)))
    expansion = None
    if encoding.encoder.family == "dense":  # others embed no terms
        expansion = QueryExpansion(partial(encoding.text_rows, parts[0].stored))
    # BM25 scores by sentence if the vectors do, and the model itself expands queries
    bm25 = Method(MTEB_BM25, None, window=WINDOW)
    if method.query == "sentences":
        bm25 = replace(bm25, query="sentences")
    lexical = PassageBM25(bm25, expansion)
    lexical.store_as(parts[0].stored.precision)
    return Index(resolved.identity, parts, lexical, method.lexical_weight or LEXICAL_WEIGHT)


def _vectors(encoding: Encoding, vectors: Vectors | None, method: Method) -> VectorScorer:
    scorer = SparseScorer if encoding.encoder.family == "sparse" else VectorScorer
    return scorer(encoding, vectors, method)


# ---- BM25 ------------------------------------------------------------------------------------------------


def make_bm25(method: Method, device: str | None = None) -> Index:
    """Return the search by our BM25, with the model that expands queries.

    Raises:
        IncompatibleError: if that model does not embed texts.
    """
    if method.is_lexical:
        return Index.of_bm25(method)
    model = make_scorer(method.encoder, device)
    encoding = model.encoding if isinstance(model, Index) else None
    if encoding is None or encoding.encoder.family != "dense":
        raise IncompatibleError(
            f"{LEXICAL} needs a dense model, which has one vector for a term, got {method.encoder!r}: give another "
            f"model, or use bm25:{LEXICAL_SETTINGS}."
        )
    expansion = QueryExpansion(partial(encoding.text_rows, encoding.vectors(Pooling())))
    return Index(_of_lexical(method, encoding.encoder.identity), lexical=PassageBM25(method, expansion))


def identity_of(method: Method) -> Identity:
    """Return the name and revision of a search by BM25. No weights are read."""
    if method.is_lexical:
        return identity_of_bm25(method)
    name = method.encoder
    if is_own(name):
        return _of_lexical(method, resolve(Method.parse(name)).identity)
    from .mteb_models import identity_in_mteb

    return _of_lexical(method, identity_in_mteb(name))


def _of_lexical(method: Method, model: Identity) -> Identity:
    """Return the name and revision of `MODEL+lexical` from its model's."""
    known = {
        key: value for key, value in (model.experiment or {}).items() if key not in ("strategy", "target_len")
    }
    own = {key: value for key, value in method.experiment.items() if key not in known}
    algorithm = "-".join(filter(None, [f"bm25_{MTEB_BM25_VERSION}{BM25_VERSION}", known.get("algorithm")]))
    return Identity(model.base, model.revision, {**known, **own, "algorithm": algorithm})
