"""One pass of a model over documents: each text is encoded once, for all heads that pool it in their own way."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.model import LongModelMixin
from mteb_longembed.errors import IncompatibleError

from . import heads
from .encoder import check_as_described, show_bars
from .heads import LongModel, Rule, TokenCounts, Vectors
from .passages import CutText
from .scorer import Documents
from .vectors import CorpusVectors

#: Bytes of vectors that one call of an encoder gives at most.
CALL_BYTES = 1 << 30
#: Texts beside documents, such as queries, whose vectors are kept.
MOST_KEPT = 100_000
#: A text -> the texts of which it has vectors.
Pieces = Callable[[str], list[str]]


class HeadKey(NamedTuple):
    """How a head pools: corpus weights, content tokens for each vector, and what cuts a text before it is encoded."""

    rule: Rule | None = None
    vectors: Vectors | None = None
    pieces: Pieces | None = None


class Head:
    """The vectors that one way of pooling gives."""

    def __init__(self, key: HeadKey) -> None:
        self.key = key
        self.forget()
        #: Whether queries are asked of it; a head on which only a map is fitted has none.
        self.is_asked = False

    def forget(self) -> None:
        """Forget all vectors."""
        self.vectors = CorpusVectors()
        self.known: dict[tuple[PromptType, str], np.ndarray] = {}


class Pass:
    """A model, and the vectors that its heads give of documents, queries and passages.

    Threads may not share it.

    Args:
        load: gives mteb's encoder. It is called when something is to be encoded, and the result is not kept beyond
            `release`.
        cut: a user's chunker. Each chunk is encoded on its own.
    """

    def __init__(self, load: Callable[[], Any], cut: CutText | None = None) -> None:
        self._load = load
        self.cut = cut
        encoder = load()
        self.meta = encoder.mteb_model_meta
        self.similarity = similarity_of(encoder)
        model = getattr(encoder, "model", None)
        self.is_ours = isinstance(model, LongModelMixin)
        self.has_several_vectors = not hasattr(encoder, "encode")
        self.is_scaled = False
        self.cuts_windows = False
        self.is_mean_of_windows = False
        if isinstance(model, LongModelMixin):
            self.is_scaled = heads.is_scaled(model)
            self.cuts_windows = model.trunk.cuts and cut is None
            self.is_mean_of_windows = heads.is_mean_of_windows(model) and cut is None
        #: What cuts a text for an encoder that averages windows (an API); these texts are asked of the inner one.
        self.pieces: Pieces | None = getattr(encoder, "windows", None) if cut is None else None
        self.generation = 0  #: changes when documents are forgotten
        self._heads: dict[HeadKey, Head] = {}
        self._forget()
        self.release()

    def _forget(self) -> None:
        self.documents = Documents([], [])
        self._counts: TokenCounts | None = None
        self._made: dict[HeadKey, LongModel] = {}
        #: Of a model that we cannot change: vectors of texts that several heads need.
        self._known_texts: dict[tuple[PromptType, str], np.ndarray] = {}
        self.generation += 1
        for head in self._heads.values():
            head.forget()

    def release(self) -> None:
        """Keep all vectors, and no model."""
        self._made = {}

    @property
    def encoder(self) -> Any:
        """mteb's encoder; that around which another one averages windows."""
        encoder = self._load()
        if self.pieces is not None:
            return encoder.inner
        return encoder

    @property
    def model(self) -> LongModel:
        """Our model."""
        return cast("LongModel", self._load().model)

    def head(
        self, rule: Rule | None = None, vectors: Vectors | None = None, pieces: Pieces | None = None
    ) -> Head:
        """The head that pools in this way."""
        key = HeadKey(rule, vectors, pieces)
        if key not in self._heads:
            if rule is not None:
                heads.check_weighable(self.model)
            self._heads[key] = Head(key)
        return self._heads[key]

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents, and forget those of the last call. Heads that know these documents read nothing."""
        if documents is not self.documents:
            self._forget()
            self.documents = documents
        late = [head for head in self._ordered() if len(head.vectors) < len(documents)]
        if late:
            self._append(late, documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents behind those of before. A call that fails changes nothing."""
        self._append(self._ordered(), documents, len(self.documents))
        self.documents = documents

    def _append(self, missing: Sequence[Head], documents: Documents, first: int = 0) -> None:
        before = [len(head.vectors) for head in missing]
        if self.is_ours:
            check_as_described(self.model)
        try:
            if self._counts is None and self._needs_counts():
                self._counts = heads.counted(self.model, documents)
            size = self._documents_a_call(missing)
            for start in range(first, len(documents), size):
                self._append_part(missing, documents, slice(start, min(start + size, len(documents))))
        except BaseException:
            for head, n in zip(missing, before, strict=True):
                head.vectors.keep_first(n)
            if not any(before):
                self._counts = None
                self.release()
            raise

    def _append_part(self, missing: Sequence[Head], documents: Documents, part: slice) -> None:
        texts = documents.texts[part]
        pieces = {head: [self._pieces(head, text) for text in texts] for head in missing}
        encoded = {}
        if self.is_ours:
            # its heads cut texts alike
            flat = list(chain.from_iterable(pieces[missing[0]]))
            rows_of_heads = self._encode(missing, flat, PromptType.document, documents)
            encoded = dict(zip(missing, rows_of_heads, strict=True))
        for head in missing:
            counts = list(map(len, pieces[head]))
            flat = list(chain.from_iterable(pieces[head]))
            if head in encoded:
                rows = encoded[head]
            elif len(self._heads) < 2:
                rows = self._encoded_by_mteb(flat, PromptType.document, documents)
            else:
                rows = self._looked_up(flat, PromptType.document, documents)
            if max(counts, default=1) > 1 or min(counts, default=1) < 1:
                ends = np.cumsum(counts)
                rows = [np.concatenate(rows[end - n : end]) for end, n in zip(ends, counts, strict=True)]
            head.vectors.append(rows)

    def _looked_up(self, texts: Sequence[str], kind: PromptType, documents: Documents) -> list[np.ndarray]:
        """The vectors of texts from a model that we cannot change. What another head has needed is known."""
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known_texts]
        rows = self._encoded_by_mteb(missing, kind, documents)
        self._known_texts.update({(kind, text): row for text, row in zip(missing, rows, strict=True)})
        return [self._known_texts[kind, text] for text in texts]

    def _pieces(self, head: Head, text: str) -> list[str]:
        if self.cut is not None:
            return [text[start:end] for start, end in self.cut(text)]
        if head.key.pieces is not None:
            return head.key.pieces(text.strip())
        return [text.strip()]  # as mteb hands it to encoders

    def _documents_a_call(self, missing: Sequence[Head]) -> int:
        """So many documents that their vectors are in memory at the same time."""
        n_bytes = 1
        if self.is_ours:
            n_bytes = max(heads.document_bytes(self._model_of(head)) for head in missing)
        return max(CALL_BYTES // n_bytes, 1)

    # ---- queries and passages ----------------------------------------------------------------------------

    def query_rows(self, head: Head, queries: Sequence[str]) -> np.ndarray:
        """The vector of each query, `[queries, d]`."""
        return np.concatenate(self._known(head, queries, PromptType.query))

    def text_rows(self, head: Head, texts: Sequence[str]) -> list[np.ndarray]:
        """The vectors of texts that are read like documents, one matrix `[vectors, d]` each."""
        return self._known(head, texts, PromptType.document)

    def rows_of(self, head: Head, texts: Sequence[str]) -> list[np.ndarray]:
        """The vectors of texts that are read like documents, one matrix `[vectors, d]` each. They are not kept here."""
        if self.is_ours:
            (rows,) = self._encode(
                [head], [text.strip() for text in texts], PromptType.document, self.documents
            )
            return rows
        return self._encoded_by_mteb(texts, PromptType.document, self.documents)

    def _known(self, head: Head, texts: Sequence[str], kind: PromptType) -> list[np.ndarray]:
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in head.known]
        if missing and not self.is_ours:
            pieces = [[text] for text in missing]
            if head.key.pieces is not None:
                pieces = [head.key.pieces(text) for text in missing]
            rows = self._looked_up(list(chain.from_iterable(pieces)), kind, self.documents)
            ends = np.cumsum(list(map(len, pieces)))
            for text, end, own in zip(missing, ends, pieces, strict=True):
                of_text = np.concatenate(rows[end - len(own) : end])
                head.known[kind, text] = of_text.mean(axis=0, keepdims=True)
        elif missing:
            # one call gives the vectors of all heads
            asked = [one for one in self._ordered() if one is head or one.is_asked]
            for one, rows in zip(asked, self._encode(asked, missing, kind, self.documents), strict=True):
                one.known.update({(kind, text): row for text, row in zip(missing, rows, strict=True)})
        found = [head.known[kind, text] for text in texts]
        for one in self._heads.values():
            if len(one.known) > MOST_KEPT:
                one.known.clear()
        return found

    # ---- encoding ----------------------------------------------------------------------------------------

    def _ordered(self) -> list[Head]:
        """All heads, those with one vector a text first: their call gives the vectors of the others too."""
        return sorted(self._heads.values(), key=lambda head: head.key.vectors is not None)

    def _needs_counts(self) -> bool:
        return any(key.rule is not None for key in self._heads)

    def _model_of(self, head: Head) -> LongModel:
        key = head.key
        if key not in self._made:
            model = self.model
            self._made[key] = heads.raw(model, key.vectors, key.rule, self._counts)
        return self._made[key]

    def _encode(
        self, asked: Sequence[Head], texts: Sequence[str], kind: PromptType, documents: Documents
    ) -> list[list[np.ndarray]]:
        """For each head one matrix `[vectors, d]` for each text, all from one pass."""
        if not texts:
            return [[] for _ in asked]
        models = [self._model_of(head) for head in asked]
        encoded = heads.encode(models, texts, kind, documents, show=show_bars())
        return [_matrices(rows) for rows in encoded]

    def _encoded_by_mteb(
        self, texts: Sequence[str], kind: PromptType, documents: Documents
    ) -> list[np.ndarray]:
        """One matrix `[1, d]` for each text, by an encoder that we cannot change."""
        if not texts:
            return []
        options = {"show_progress_bar": show_bars(), **documents.options}
        table = text_table({str(number): text for number, text in enumerate(texts)})
        loader: Any = DataLoader(cast("Any", table), batch_size=options.get("batch_size", 32))
        where = {"hf_split": "test", "hf_subset": "default", "prompt_type": kind}
        return _matrices(self.encoder.encode(loader, task_metadata=documents.metadata, **where, **options))


def _matrices(rows: Any) -> list[np.ndarray]:
    return [np.atleast_2d(np.asarray(torch.as_tensor(row).float().cpu())) for row in rows]


def similarity_of(encoder: Any) -> str:
    """How an encoder for mteb compares its vectors: `cosine`, `dot` or another of sentence-transformers' names."""
    model: Any = getattr(encoder, "model", None)
    if not hasattr(encoder, "encode"):  # several vectors: their length is 1, or they are raw
        return "cosine" if heads.is_scaled(model) else "dot"
    name = (
        getattr(model, "similarity_fn_name", None) or encoder.mteb_model_meta.similarity_fn_name or "cosine"
    )
    return str(getattr(name, "value", name))


def check_comparable(similarity: str) -> None:
    """Refuse a model whose vectors are compared in a way that a matrix product does not give.

    Raises:
        IncompatibleError: if it is neither the cosine nor the dot product.
    """
    if similarity not in ("cosine", "dot"):
        raise IncompatibleError(
            f"a search needs vectors that are compared by cosine or dot product, got {similarity}: leave out fuse, "
            "weights, whiten and score."
        )
