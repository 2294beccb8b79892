"""One pass of a model over documents: each text is encoded once, for all heads that pool it in their own way."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from mteb.models.abs_encoder import get_prompt
from mteb.types import PromptType
from sentence_transformers.sentence_transformer.modules import Normalize
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.batching import Engine
from mteb_longembed.encoders.model import LongModel, LongModelMixin, LongSentenceTransformer, with_head
from mteb_longembed.encoders.tokens import document_prompt, draw
from mteb_longembed.encoders.vectors import check_averages
from mteb_longembed.encoders.weights import Rule, TokenCounts, TokenWeights, count_tokens
from mteb_longembed.errors import InputError
from mteb_longembed.names import Vectors

from .chunks import CutChunks
from .encoder import check_as_described, show_bars
from .scorer import Documents
from .vectors import CorpusVectors

#: Bytes of vectors that one call of an encoder gives at most.
CALL_BYTES = 1 << 30
#: Texts beside documents, such as queries, whose vectors are kept.
MOST_KEPT = 100_000
#: A text -> the texts of which it has vectors.
Pieces = Callable[[str], list[str]]


class Head:
    """One way of pooling, and the vectors that it gives.

    Args:
        rule: of corpus weights.
        step: content tokens for each vector, or `window`; None for one vector a text.
        pieces: cuts a text before it is encoded; its vector is the mean of theirs.
    """

    def __init__(self, rule: Rule | None, step: Vectors | None, pieces: Pieces | None) -> None:
        self.rule = rule
        self.step = step
        self.pieces = pieces
        self.forget()

    def forget(self) -> None:
        """Forget all vectors."""
        self.vectors = CorpusVectors()
        self.known: dict[tuple[PromptType, str], np.ndarray] = {}
        self.model: LongModel | None = None


class Pass:
    """A model, and the vectors that its heads give of documents, queries and passages.

    Threads may not share it.

    Args:
        load: gives mteb's encoder. It is called when something is to be encoded, and the result is not kept beyond
            `release`.
        cut: a user's chunker. Each chunk is encoded on its own.

    Raises:
        InputError: if an encoder of chunks does not give one vector a text that is compared by cosine or dot product.
    """

    def __init__(self, load: Callable[[], Any], cut: CutChunks | None = None) -> None:
        #: Gives mteb's encoder.
        self.load = load
        self.cut = cut
        encoder = load()
        self.meta = encoder.mteb_model_meta
        model: Any = getattr(encoder, "model", None)
        self.is_ours = isinstance(model, LongModelMixin)
        self.has_several_vectors = not hasattr(encoder, "encode")
        #: How vectors are compared, by sentence-transformers' names: several vectors of a text by their product.
        self.similarity = "dot"
        if not self.has_several_vectors:
            name = getattr(model, "similarity_fn_name", None) or self.meta.similarity_fn_name or "cosine"
            self.similarity = str(getattr(name, "value", name))
        if cut is not None and (self.has_several_vectors or self.similarity not in ("cosine", "dot")):
            raise InputError(
                "a chunker needs a model with one vector a text, compared by cosine or dot product, got "
                f"{self.meta.name}: use another name."
            )
        #: Whether its vectors have length 1.
        self.is_scaled = False
        if self.is_ours:
            # several vectors may be scaled where they are grouped, or, as those of an adapted model, before
            is_grouped = model.head.vectors is not None and model.head.normalize
            self.is_scaled = is_grouped or any(isinstance(module, Normalize) for module in model.head.behind)
        self.cuts_windows = self.is_ours and model.trunk.cuts and cut is None
        self.heads: list[Head] = []
        self._forget()

    def _forget(self) -> None:
        self.documents = Documents([], [])
        self._counts: TokenCounts | None = None
        for head in self.heads:
            head.forget()

    def release(self) -> None:
        """Keep all vectors, and no model."""
        for head in self.heads:
            head.model = None

    @property
    def model(self) -> LongModel:
        """Our model."""
        return cast("LongModel", self.load().model)

    def head(
        self, rule: Rule | None = None, step: Vectors | None = None, pieces: Pieces | None = None
    ) -> Head:
        """The head that pools in this way."""
        for head in self.heads:
            if (head.rule, head.step, head.pieces) == (rule, step, pieces):
                return head
        if rule is not None:
            check_averages("weights", "the model", self.model.head.mode)
        self.heads.append(Head(rule, step, pieces))
        # one vector a text first: its call gives the vectors of the others too
        self.heads.sort(key=lambda head: head.step is not None)
        return self.head(rule, step, pieces)

    def model_of(self, head: Head) -> LongModel:
        """Our model as a head pools."""
        if head.model is None:
            head.model = raw(self.model, head.step, head.rule, self._counts)
        return head.model

    # ---- documents ---------------------------------------------------------------------------------------

    def fit(self, documents: Documents) -> None:
        """Encode documents, and forget those of the last call. Heads that know these documents read nothing."""
        if documents is not self.documents:
            self._forget()
            self.documents = documents
        late = [head for head in self.heads if len(head.vectors) < len(documents)]
        if late:
            self._append(late, documents)

    def add(self, documents: Documents) -> None:
        """Encode the documents behind those of before. A call that fails changes nothing."""
        self._append(self.heads, documents, len(self.documents))
        self.documents = documents

    def _append(self, late: Sequence[Head], documents: Documents, first: int = 0) -> None:
        before = [len(head.vectors) for head in late]
        size = CALL_BYTES
        try:
            if self.is_ours:
                check_as_described(self.model)
                if self._counts is None and any(head.rule for head in self.heads):
                    drawn, _ = draw(map(str.strip, documents.texts), self.model.max_seq_length)
                    self._counts = count_tokens(cast("Any", self.model), drawn)
                size = max(CALL_BYTES // max(document_bytes(self.model_of(head)) for head in late), 1)
            for start in range(first, len(documents), size):
                texts = documents.texts[start : min(start + size, len(documents))]
                encoded = self._encode(late, texts, PromptType.document, documents, self.cut)
                for head, rows in zip(late, encoded, strict=True):
                    head.vectors.append(rows)
        except BaseException:
            for head, n in zip(late, before, strict=True):
                head.vectors.keep_first(n)
            if not any(before):
                self._counts = None
                self.release()
            raise

    # ---- queries and passages ----------------------------------------------------------------------------

    def query_rows(self, head: Head, queries: Sequence[str]) -> np.ndarray:
        """The vector of each query, `[queries, d]`."""
        return self.text_rows(head, queries, PromptType.query)

    def rows_of(self, head: Head, texts: Sequence[str]) -> list[np.ndarray]:
        """The vectors of texts that are read like documents, one matrix `[vectors, d]` each. They are not kept here."""
        (rows,) = self._encode([head], texts, PromptType.document, self.documents)
        return rows

    def text_rows(
        self, head: Head, texts: Sequence[str], kind: PromptType = PromptType.document
    ) -> np.ndarray:
        """The vector of each text that is read like a document, `[texts, d]`; of several vectors, their mean."""
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in head.known]
        if missing:
            # one call gives the vectors of all heads
            encoded = self._encode(self.heads, missing, kind, self.documents)
            for one, rows in zip(self.heads, encoded, strict=True):
                one.known.update({(kind, text): row for text, row in zip(missing, rows, strict=True)})
        found = np.stack([head.known[kind, text].mean(axis=0) for text in texts])
        for one in self.heads:
            if len(one.known) > MOST_KEPT:
                one.known.clear()
        return found

    # ---- encoding ----------------------------------------------------------------------------------------

    def _encode(
        self,
        asked: Sequence[Head],
        texts: Sequence[str],
        kind: PromptType,
        documents: Documents,
        cut: CutChunks | None = None,
    ) -> list[list[np.ndarray]]:
        """For each head one matrix `[vectors, d]` for each text. What heads have in common is encoded once."""
        pieces = []
        for head in asked:
            pieces.append([_pieces(text, kind, head.pieces, cut) for text in texts])
        flat = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(pieces))))
        if not flat:
            return [[] for _ in asked]
        if self.is_ours:
            models = [self.model_of(head) for head in asked]
            encoded = encode(models, flat, kind, documents)
        else:
            encoded = [self._encoded_by_mteb(flat, kind, documents)] * len(asked)
        found = []
        for head, of_head, rows in zip(asked, pieces, encoded, strict=True):
            known = {}
            for piece, row in zip(flat, rows, strict=True):
                known[piece] = np.atleast_2d(torch.as_tensor(row).float().cpu().numpy())
            matrices = []
            for of_text in of_head:
                matrix = np.concatenate([known[piece] for piece in of_text])
                if head.pieces is not None:
                    matrix = matrix.mean(axis=0, keepdims=True)
                matrices.append(matrix)
            found.append(matrices)
        return found

    def _encoded_by_mteb(self, texts: Sequence[str], kind: PromptType, documents: Documents) -> Any:
        """The vectors of texts by an encoder that we cannot change, `[texts, d]`."""
        options = {"show_progress_bar": show_bars(), **documents.options}
        table = text_table({str(number): text for number, text in enumerate(texts)})
        loader: Any = DataLoader(cast("Any", table), batch_size=options.get("batch_size", 32))
        where = {"hf_split": "test", "hf_subset": "default", "prompt_type": kind}
        return self.load().encode(loader, task_metadata=documents.metadata, **where, **options)


def _pieces(text: str, kind: PromptType, pieces: Pieces | None, cut: CutChunks | None) -> list[str]:
    """The texts that are encoded for a text."""
    if cut is not None:
        return [chunk.text for chunk in cut(text)]
    if kind == PromptType.document:
        text = text.strip()  # as mteb hands it to encoders
    if pieces is not None:
        return pieces(text)
    return [text]


# ---- our models ----------------------------------------------------------------------------------------------


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
    models: Sequence[LongModel], texts: Sequence[str], kind: PromptType, documents: Documents
) -> list[list[Any]]:
    """For each of these models, which share their first module, the vectors of all texts, from one pass."""
    first = models[0]
    options = documents.options
    with torch.inference_mode():
        # the prompt of a task that mteb gives the model, or else its own
        prompt = get_prompt(cast("dict[str, str]", first.prompts), documents.metadata, kind)
        if prompt is None and kind == PromptType.document:
            prompt = document_prompt(first)
        engine = Engine(models, prompt or None, options.get("batch_size", 32), {"task": kind.value})
        engine.keep_in(first.store)
        done = engine.encode(texts, show=options.get("show_progress_bar", show_bars()))
    found = []
    for place, model in enumerate(models):
        dims = getattr(model, "truncate_dim", None)
        found.append([done[text][place][..., :dims] for text in texts])
    return found


def document_bytes(model: LongModel) -> int:
    """The bytes of the vectors of a document that is as long as the model reads, at most."""
    strategy = model.trunk.strategy
    step = model.head.vectors or strategy.target_len
    if step == "window":
        # pcw's windows, without special tokens; those of other strategies are as long as the trained length
        size = getattr(strategy, "size", strategy.trained_len)
        step = max(size - getattr(strategy, "overlap", 0) - 2, 1)
    return 4 * (model.get_embedding_dimension() or 1) * -(-strategy.target_len // int(step))
