"""One pass of a model over documents, which encodes each text once for all representations."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from mteb.types import PromptType
from sentence_transformers.sentence_transformer.modules import Normalize
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.kinds import Kind
from mteb_longembed.encoders.model import LongModel
from mteb_longembed.encoders.tokens import sample_texts
from mteb_longembed.encoders.vectors import check_averages
from mteb_longembed.encoders.weights import Rule, TokenCounts, count_tokens
from mteb_longembed.encoders.windows import vector_spans
from mteb_longembed.errors import IncompatibleError
from mteb_longembed.values import Precision, Vectors

from .codecs import bytes_of
from .encoder import check_as_described, model_in, show_bars
from .representation import (
    Representation,
    document_bytes,
    encode,
    encode_sparse,
    highest,
    kept_texts,
    repooled,
)
from .scorer import Documents
from .storage import Reader, Writer

#: Bytes of the span of a vector.
SPAN_BYTES = 8
#: Maximum bytes of vectors that one call of an encoder returns.
CALL_BYTES = 1 << 30
#: Maximum number of other texts, such as queries, whose vectors are kept.
MOST_KEPT = 100_000


class Pass:
    """A model, and its vectors of documents, queries and passages in each representation.

    It is not thread-safe.

    Args:
        load: returns mteb's encoder. It is called when something is to be encoded, and the result is not kept beyond
            `release`.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        #: Returns mteb's encoder.
        self.load = load
        encoder = load()
        self.meta = encoder.mteb_model_meta
        model = model_in(encoder)
        #: Whether the model is ours.
        self.is_ours = isinstance(model, LongModel)
        self.has_several_vectors = not hasattr(encoder, "encode")
        #: The kind of its base.
        self.kind: Kind = model.kind if isinstance(model, LongModel) else "dense"
        #: Whether a query has several vectors, as in late interaction.
        self.is_late = self.kind == "late-interaction"
        #: The similarity function by sentence-transformers' name; the dot product for several vectors per text.
        self.similarity = "dot"
        if not self.has_several_vectors:
            name = getattr(model, "similarity_fn_name", None) or self.meta.similarity_fn_name or "cosine"
            self.similarity = str(getattr(name, "value", name))
        #: Whether its vectors have length 1.
        self.is_scaled = False
        self.cuts_windows = False
        if isinstance(model, LongModel):
            # several vectors may be scaled when they are grouped or, in an adapted model, before
            is_grouped = model.head.vectors is not None and model.head.normalize
            self.is_scaled = is_grouped or any(isinstance(module, Normalize) for module in model.head.behind)
            self.cuts_windows = model.backbone.cuts
        self.representations: list[Representation] = []
        self._forget()

    def _forget(self) -> None:
        self.documents = Documents([], [])
        self._counts: TokenCounts | None = None
        for representation in self.representations:
            representation.forget()

    def release(self) -> None:
        """Free the models of all representations, and keep all vectors."""
        for representation in self.representations:
            representation.model = None

    @property
    def model(self) -> LongModel:
        """Our model."""
        return cast("LongModel", self.load().model)

    def represent(
        self, rule: Rule | None = None, step: Vectors | None = None, *, late: bool = False
    ) -> Representation:
        """Return the representation with this pooling, registered with the pass. The next `fit` fills a new one."""
        key = (rule, step, late)
        for one in self.representations:
            if (one.rule, one.step, one.late) == key:
                return one
        if rule is not None:
            check_averages("weights", "the model", self.model.head.mode)
        representation = Representation(*key, kind=self.kind)
        self.representations.append(representation)
        # one vector per text first: its call also returns the vectors of the others
        self.representations.sort(key=lambda one: one.step is not None)
        return representation

    def model_of(self, one: Representation) -> LongModel:
        """Return our model with the pooling of a representation."""
        if one.model is None:
            one.model = repooled(self.model, one, self._counts)
        return one.model

    def store_as(self, precision: Precision) -> None:
        """Store the vectors of all representations at a precision; they must have no documents yet.

        Raises:
            IncompatibleError: if the vectors are sparse.
        """
        if self.kind == "sparse":
            raise IncompatibleError(
                f"a precision is one of dense vectors, got {precision} with a sparse model: leave it out."
            )
        for one in self.representations:
            one.precision = precision
            one.forget()

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents, and forget the documents of the last call. Representations that have them are skipped."""
        if documents is not self.documents:
            self._forget()
            self.documents = documents
        missing = [one for one in self.representations if len(one.vectors) < len(documents)]
        if missing:
            self._append(missing, documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents after the previous ones. A failed call changes nothing."""
        if len(documents) > len(self.documents):
            self._append(self.representations, documents, len(self.documents))
            self.documents = documents

    def keep(self, documents: Documents, kept: np.ndarray) -> None:
        """Keep the vectors of some of the previous documents, bool `[previous documents]`."""
        if len(documents) < len(self.documents):
            for one in self.representations:
                one.keep(kept)
            self.documents = documents

    def _append(self, missing: Sequence[Representation], documents: Documents, first: int = 0) -> None:
        before = [len(one.vectors) for one in missing]
        size = CALL_BYTES
        try:
            if self.is_ours:
                check_as_described(self.model)
                if self._counts is None and any(one.rule for one in self.representations):
                    sampled, _ = sample_texts(map(str.strip, documents.texts), self.model.max_seq_length)
                    self._counts = count_tokens(self.model, sampled)
                size = max(CALL_BYTES // max(document_bytes(self.model_of(one)) for one in missing), 1)
            for start in range(first, len(documents), size):
                texts = documents.texts[start : min(start + size, len(documents))]
                encoded = self._encode(missing, texts, PromptType.document, documents)
                spans = self._spans(missing, texts)
                for one, rows, spans_of_one in zip(missing, encoded, spans, strict=True):
                    one.append(rows, spans_of_one)
        except BaseException:
            for one, n in zip(missing, before, strict=True):
                one.keep_first(n)
            if not any(before):
                self._counts = None
                self.release()
            raise

    def kept(self, texts: Sequence[str]) -> set[str]:
        """Return the texts whose vectors the embedding cache has in all representations, so that they are not encoded.

        Corpus weights are not known before the documents are, and sparse vectors are not kept: then there are none.
        """
        wanted = self.representations
        if not self.is_ours or not wanted or self.kind == "sparse" or any(one.rule for one in wanted):
            return set()
        stripped = {text.strip(): text for text in texts}
        models = [self.model_of(one) for one in wanted]
        return {stripped[text] for text in kept_texts(models, list(stripped), self.documents)}

    def vector_bytes(self, text: str) -> int:
        """Return the bytes of the vectors of a document in all representations; 0 if not known. Nothing is encoded."""
        if not self.is_ours or self.kind == "sparse":
            return 0
        n_bytes = 0
        width = self.model.get_embedding_dimension() or 0
        for one in self.representations:
            n_vectors = 1
            if self.kind == "late-interaction":
                n_vectors = sum(len(ids) for ids in self.model.backbone.token_ids([text]) or [])
            elif one.rule is None:
                n_vectors = len(vector_spans([self.model_of(one)], text)[0])
            n_bytes += n_vectors * (bytes_of(one.precision, width) + SPAN_BYTES)
        return n_bytes

    def _spans(self, wanted: Sequence[Representation], texts: Sequence[str]) -> Iterator[list[np.ndarray]]:
        """Yield for each representation the spans of each text, `[spans, 2]`."""
        if self.is_ours:
            models = [self.model_of(one) for one in wanted]
            of_texts = [vector_spans(models, text) for text in texts]
        else:
            of_texts = [[np.array([[0, len(text)]])] * len(wanted) for text in texts]
        for number in range(len(wanted)):
            yield [spans[number] for spans in of_texts]

    # ---- queries and passages ----------------------------------------------------------------------------

    def query_arrays(self, one: Representation, queries: Sequence[str]) -> list[np.ndarray]:
        """Return the query vectors of each query, `[vectors, d]`: one, or one for each token."""
        return self._arrays(one, queries, PromptType.query)

    def document_arrays(self, one: Representation, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the vectors of each text encoded as a document, `[vectors, d]`."""
        return self._arrays(one, texts, PromptType.document)

    def text_rows(self, one: Representation, texts: Sequence[str]) -> np.ndarray:
        """Return the vector of each text encoded as a document, `[texts, d]`; the mean of several vectors."""
        return np.stack([array.mean(axis=0) for array in self.document_arrays(one, texts)])

    def _arrays(self, wanted: Representation, texts: Sequence[str], kind: PromptType) -> list[np.ndarray]:
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in wanted.known]
        if missing:
            # one call returns the vectors of all representations
            encoded = self._encode(self.representations, missing, kind, self.documents)
            for one, rows in zip(self.representations, encoded, strict=True):
                one.known.update({(kind, text): row for text, row in zip(missing, rows, strict=True)})
        arrays = [wanted.known[kind, text] for text in texts]
        for one in self.representations:
            if len(one.known) > MOST_KEPT:
                one.known.clear()
        return arrays

    # ---- encoding ----------------------------------------------------------------------------------------

    def _encode(
        self,
        wanted: Sequence[Representation],
        texts: Sequence[str],
        kind: PromptType,
        documents: Documents,
    ) -> list[list[np.ndarray]]:
        """Return for each representation one array `[vectors, d]` per text. The shared backbone runs once."""
        if kind == PromptType.document:
            texts = [text.strip() for text in texts]  # as mteb passes them to encoders
        flat = list(dict.fromkeys(texts))
        if not flat:
            return [[] for _ in wanted]
        if self.kind == "sparse":
            # the vector of a text is the maximum of its windows
            widest = next((one for one in wanted if one.step is not None), wanted[0])
            rows_of = encode_sparse(self.model_of(widest), flat, kind, documents)
            several = [rows_of[text] for text in texts]
            return [several if one is widest else list(map(highest, several)) for one in wanted]
        if self.is_ours:
            models = [self.model_of(one) for one in wanted]
            encoded = encode(models, flat, kind, documents)
        else:
            encoded = [self._encoded_by_mteb(flat, kind, documents)] * len(wanted)
        arrays = []
        for rows in encoded:
            array_of = {}
            for text, row in zip(flat, rows, strict=True):
                array_of[text] = np.atleast_2d(torch.as_tensor(row).float().cpu().numpy())
            arrays.append([array_of[text] for text in texts])
        return arrays

    def _encoded_by_mteb(self, texts: Sequence[str], kind: PromptType, documents: Documents) -> Any:
        """Encode texts by an encoder of mteb's own, `[texts, d]`."""
        options = {"show_progress_bar": show_bars(), **documents.options}
        table = text_table({str(index): text for index, text in enumerate(texts)})
        loader: Any = DataLoader(cast("Any", table), batch_size=options.get("batch_size", 32))
        where = {"hf_split": "test", "hf_subset": "default", "prompt_type": kind}
        return self.load().encode(loader, task_metadata=documents.metadata, **where, **options)

    # ---- saving ------------------------------------------------------------------------------------------

    def save(self, writer: Writer) -> None:
        """Write the vectors of all representations, and the token counts behind corpus weights."""
        for one in self.representations:
            one.save(writer)
        if self._counts is not None and not writer.has("token-counts.tokens"):
            counts = {"tokens": self._counts.tokens, "documents": self._counts.documents}
            writer.arrays("token-counts", counts)
            writer.settings["n_counted"] = self._counts.n_documents

    def restore(self, reader: Reader, documents: Documents) -> None:
        """Restore the vectors of a saved index."""
        self.documents = documents
        counts = reader.arrays("token-counts")
        if counts:
            self._counts = TokenCounts(**counts, n_documents=reader.settings["n_counted"])
        for one in self.representations:
            one.restore(reader)
