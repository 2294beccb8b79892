"""Corpus weights: weight tokens in a text's vector by their frequency in the searched corpus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeVar

import numpy as np
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import WordWeights
from tqdm.auto import tqdm  # type: ignore[import-untyped]
from transformers import PreTrainedTokenizerBase

from .backbone import rows_of_vocabulary
from .tokens import Ids, cutter_of, document_prompt
from .vectors import BATCH, Features

T = TypeVar("T")
Rule = Literal["sif", "idf"]
#: SIF's constant: a token whose share of the corpus is `SIF_A` has the weight 0.5.
SIF_A = 1e-4
#: The minimum weight of `idf`, so that a token of every document still counts a little.
LEAST_IDF = 0.05
#: The weight of special tokens: nearly 0, but not 0 in half precision, so that a text of special tokens only is pooled
#: as without weights.
NO_WEIGHT = 1e-7
#: Texts that are tokenised together.
_AT_ONCE = 64


@dataclass(frozen=True)
class TokenCounts:
    """Counts of a vocabulary's tokens in a corpus. Special tokens are not counted.

    Args:
        tokens: occurrences of each token, `[vocabulary]`.
        documents: document frequency of each token, `[vocabulary]`.
        n_documents: number of documents.
    """

    tokens: np.ndarray
    documents: np.ndarray
    n_documents: int


def sif(counts: TokenCounts) -> np.ndarray:
    """Compute the smooth inverse frequency: `a / (a + share)`, with the token's `share` of all corpus tokens.

    A token that the corpus lacks counts as occurring once.

    Source: Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings", ICLR.
    Differs: the vectors come from a transformer, the counts from the searched corpus, and no principal component
        is removed.

    >>> sif(TokenCounts(np.array([0, 9_999, 1, 0]), np.array([0, 1, 1, 0]), n_documents=1)).round(4).tolist()
    [0.5, 0.0001, 0.5, 0.5]
    """
    share = np.maximum(counts.tokens, 1) / max(int(counts.tokens.sum()), 1)
    return SIF_A / (SIF_A + share)


def idf(counts: TokenCounts) -> np.ndarray:
    """Compute the IDF: `ln((N + 1) / (n + 0.5))` with `N` documents, `n` of them with the token; at least 0.05.

    A token that the corpus lacks counts as being in one document.

    >>> idf(TokenCounts(np.array([0, 2, 1, 0]), np.array([0, 2, 1, 0]), n_documents=2)).round(3).tolist()
    [0.693, 0.182, 0.693, 0.693]
    """
    weights = np.log((counts.n_documents + 1) / (np.maximum(counts.documents, 1) + 0.5))
    return np.maximum(weights, LEAST_IDF)


#: Rule -> the function from counts to weights `[vocabulary]`.
RULES: Mapping[str, Callable[[TokenCounts], np.ndarray]] = {"sif": sif, "idf": idf}


def count_tokens(model: BaseModel, texts: Sequence[str], *, show: bool = False) -> TokenCounts:
    """Count the tokens of documents, as far as the model reads them, without special tokens.

    The tokens of the model's prompts count as present in every document: they precede each text and say nothing about
    it.
    """
    tokenizer: PreTrainedTokenizerBase = model.tokenizer
    vocabulary = max(rows_of_vocabulary(model[0]), len(tokenizer))
    prompts = list(filter(None, model.prompts.values()))
    always = np.concatenate([np.zeros(0, np.int32), *_plain_ids(tokenizer, prompts, None)])
    tokens = np.zeros(vocabulary, np.int64)
    documents = np.zeros(vocabulary, np.int64)
    with tqdm(total=len(texts), desc="Counting tokens", unit=" documents", disable=not show) as bar:
        for start in range(0, len(texts), _AT_ONCE):
            for ids in content_ids(model, texts[start : start + _AT_ONCE]):
                occurrences = np.bincount(np.concatenate([ids, always]), minlength=vocabulary)
                tokens += occurrences
                documents += occurrences > 0
                bar.update()
    return TokenCounts(tokens, documents, len(texts))


def content_ids(model: BaseModel, texts: Sequence[str]) -> list[Ids]:
    """Return the ids of each text's own tokens, as far as the model reads it after its prompt."""
    tokenizer: PreTrainedTokenizerBase = model.tokenizer
    if model.max_seq_length is None:
        return _plain_ids(tokenizer, texts, None)
    room = max(model.max_seq_length - len(tokenizer(document_prompt(model))["input_ids"]), 0)
    cutter = cutter_of(tokenizer)
    if cutter is not None:
        return cutter.contents(texts, room)
    return _plain_ids(tokenizer, texts, room)


def _plain_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], room: int | None) -> list[Ids]:
    if not texts:
        return []
    rows = tokenizer(list(texts), add_special_tokens=False, truncation=False)["input_ids"]
    return [np.array(row[:room], np.int32) for row in rows]


def special_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids of special tokens, without an unknown token that has no second role: it is content."""
    roles = dict(tokenizer.special_tokens_map)
    unknown = roles.pop("unk_token", None)
    if unknown in roles.values():
        unknown = None
    return [token for token in tokenizer.all_special_ids if tokenizer.convert_ids_to_tokens(token) != unknown]


class _ShortList(list[T]):
    """A list whose repr is its size, because the repr of a model has the settings of its modules."""

    def __repr__(self) -> str:
        return f"<{len(self):,} items>"


class _ShortDict(dict[T, float]):
    """A dict whose repr is its size."""

    __repr__ = _ShortList.__repr__


class TokenWeights(WordWeights):
    """sentence-transformers' `WordWeights`, which also passes on token weights, for several vectors."""

    def __init__(
        self, vocab: list[str], word_weights: dict[str, float], unknown_word_weight: float = 1.0
    ) -> None:
        super().__init__(_ShortList(vocab), _ShortDict(word_weights), unknown_word_weight)

    @classmethod
    def of_corpus(cls, counts: TokenCounts, rule: Rule, tokenizer: PreTrainedTokenizerBase) -> Self:
        """Build a module with the weights of a corpus. An id without a token gets a unique name."""
        weights = RULES[rule](counts).astype(np.float32)
        weights[special_ids(tokenizer)] = NO_WEIGHT
        names = [f"[id {token}]" for token in range(len(weights))]
        for name, token in tokenizer.get_vocab().items():
            if token < len(names):
                names[token] = name
        return cls(names, dict(zip(names, weights.tolist(), strict=True))).requires_grad_(False)

    def stock(self) -> WordWeights:
        """Return the same weights in sentence-transformers' own class, whose sums include the weights of a prompt."""
        return WordWeights(self.vocab, self.word_weights, self.unknown_word_weight).requires_grad_(False)

    def forward(self, features: Features, **kwargs: object) -> Features:
        """Multiply `token_embeddings` `[b, n, d]` by the weights of their tokens, which the `TokenBatch` gets too.

        A prompt has no weight: the pooling leaves its tokens out, and so must the sum of weights.
        """
        weights = self.emb_layer(features["input_ids"]).squeeze(-1) * features["attention_mask"]
        prompt_length = int(features.get("prompt_length") or 0)
        weights[:, :prompt_length] = 0
        tokens = features["token_embeddings"] * weights[:, :, None].to(features["token_embeddings"].dtype)
        weighted = {**features, "token_embeddings": tokens, "token_weights_sum": weights.sum(1)}
        if BATCH in features:
            weighted[BATCH] = replace(features[BATCH], weights=weights)
        return weighted
