"""Models that mteb itself runs: encoders as text encoders, and any search of mteb's as a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import mteb
import numpy as np
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import SentenceTransformerEncoderWrapper, SparseEncoderWrapper
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import EncoderProtocol, SearchProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.devices import on_host
from mteb_longembed.encoders.families import Family
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.errors import HubError, LongEmbedError, ModelError
from mteb_longembed.files import Json
from mteb_longembed.hub import hub_answers, offline_without_hub, translate_hub_errors, unreachable
from mteb_longembed.names import Identity
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

from .encoder import Encoded, Role, show_bars, texts_read
from .encoding import Encoding
from .index import Index
from .scorer import Documents, Identified, Scorer, Span, whole_documents
from .vector_scorer import VectorScorer


def load_from_mteb(name: str, device: str | None = None) -> Scorer:
    """Load the scorer of a model that mteb knows.

    Raises:
        HubError: if the hub cannot be reached, and the cache lacks the model.
        ModelError: if mteb cannot load the model, or it neither embeds nor searches.
    """
    try:
        with offline_without_hub(), translate_hub_errors():
            model: Any = mteb.get_model(name, device=device)
    except HubError:
        if hub_answers():
            raise
        raise unreachable(name) from None
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        if isinstance(error, OSError) and not hub_answers():
            raise unreachable(name) from error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error
    return scorer_of(model)


def scorer_of(model: Any) -> Scorer:
    """Return a model of mteb's as a scorer.

    Raises:
        ModelError: if it neither embeds nor searches.
    """
    if isinstance(model, SparseEncoderWrapper):
        return ForeignSearch(SearchEncoderWrapper(cast("EncoderProtocol", model)))
    if hasattr(model, "encode"):
        encoder = MTEBEncoder(model)
        if encoder.similarity not in ("cosine", "dot"):
            return ForeignSearch(SearchEncoderWrapper(model))
        return Index(encoder.identity, [VectorScorer(Encoding(encoder), None, Method(encoder.identity.base))])
    if not hasattr(model, "index"):
        raise ModelError(f"search needs a model that embeds or searches, got {model.mteb_model_meta.name}.")
    return ForeignSearch(model)


def search_as_mteb(model: Any, identity: Identity) -> Scorer:
    """Return mteb's own search by one of our models, which compares vectors by any function of similarity."""
    scorer = ForeignSearch(SearchEncoderWrapper(SentenceTransformerEncoderWrapper(model)))
    scorer.identity = identity
    return scorer


def identity_in_mteb(name: str) -> Identity:
    """Return the name and revision of a model that mteb knows."""
    with offline_without_hub():
        return _identity(mteb.get_model_meta(name, fetch_from_hf=True))


def _identity(meta: ModelMeta) -> Identity:
    return Identity(str(meta.name), meta.revision, meta.experiment_kwargs)


def _metadata(documents: Documents) -> TaskMetadata:
    """Return the metadata of the task; for documents without a task, of a generic search."""
    if documents.task is not None:
        return documents.task
    fields = {"name": "Search", "eval_langs": [documents.language]}
    return LongEmbedPasskey.metadata.model_copy(update=fields)


class MTEBEncoder(Identified):
    """A dense encoder of mteb's own as a text encoder, with one vector for each text.

    Args:
        encoder: mteb's encoder.
    """

    family: Family = "dense"
    is_scaled = False
    cuts_windows = False
    has_several_vectors = False

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        meta = encoder.mteb_model_meta
        self.identity = _identity(meta)
        self.max_tokens: float | None = meta.max_tokens
        model = getattr(encoder, "model", None)  # an API has none
        name = getattr(model, "similarity_fn_name", None) or meta.similarity_fn_name or "cosine"
        self.similarity = str(getattr(name, "value", name))

    def release(self) -> None:
        """Nothing: mteb's encoder stays."""

    def encode(
        self,
        texts: Sequence[str],
        role: Role,
        poolings: Sequence[Pooling],
        documents: Documents,
        *,
        has_spans: bool = True,
    ) -> list[list[Encoded]]:
        """Return the vector of each text, with the whole text as its span, for each pooling."""
        read = texts_read(texts, role)
        flat = list(dict.fromkeys(read))
        if not flat:
            return [[] for _ in poolings]
        options = {"show_progress_bar": show_bars(), **documents.options}
        table = text_table({str(index): text for index, text in enumerate(flat)})
        loader: Any = DataLoader(cast("Any", table), batch_size=options.get("batch_size", 32))
        where = {"hf_split": "test", "hf_subset": "default", "prompt_type": PromptType(role)}
        rows = self.encoder.encode(loader, task_metadata=_metadata(documents), **where, **options)
        row_of = dict(zip(flat, map(on_host, rows), strict=True))
        encoded = [
            Encoded(row_of[one], np.array([[0, len(text)]])) for one, text in zip(read, texts, strict=True)
        ]
        return [encoded for _ in poolings]


class ForeignSearch(Identified):
    """Any search of mteb's as a scorer. Documents that it does not return score minus infinity."""

    max_tokens = None

    def __init__(self, search: SearchProtocol) -> None:
        self._search = search
        self.identity = _identity(search.mteb_model_meta)
        self._documents = Documents([], [])

    def fit(self, documents: Documents) -> None:
        """Index the documents, unless the last call had the same."""
        if documents is not self._documents:
            self._documents = documents
            self._index(documents)

    def _index(self, documents: Documents) -> None:
        table = text_table(dict(zip(documents.ids, documents.texts, strict=True)))
        self._search.index(table.add_column("title", [""] * len(table)), **self._options(documents))

    def scores(self, queries: Sequence[str]) -> np.ndarray:
        """Return the score of each document for each query, float32 `[queries, documents]`."""
        documents = self._documents
        if getattr(self._search, "task_corpus", True) is None:  # mteb's own searches forget the corpus
            self._index(documents)
        table = text_table({str(row): query for row, query in enumerate(queries)})
        ranked = self._search.search(table, top_k=len(documents), top_ranked=None, **self._options(documents))
        matrix = np.full((len(queries), len(documents)), -np.inf, np.float32)
        for row, scores in enumerate(matrix):
            for key, score in ranked.get(str(row), {}).items():
                scores[documents.indices[key]] = score
        return matrix

    def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
        """Return whole documents: mteb's searches have no passages."""
        return whole_documents(self._documents, indices)

    def _options(self, documents: Documents) -> Json:
        where = {"hf_split": "test", "hf_subset": "default", "num_proc": None}
        return {"task_metadata": _metadata(documents), "encode_kwargs": dict(documents.options), **where}
