"""Corpus weights: how much each token counts in a text's vector, by how rare it is in the corpus that is searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from sentence_transformers.sentence_transformer.modules import WordWeights
from transformers import PreTrainedTokenizerBase

from mteb_longembed.encoders.features import Features, Ids
from mteb_longembed.encoders.token_batch import BATCH
from mteb_longembed.errors import InputError

Rule = Literal["sif", "idf"]
#: SIF's constant: a token whose share of the corpus is `SIF_A` has the weight 0.5.
SIF_A = 1e-4
#: The least weight of `idf`, so that a token of every document still counts a little.
LEAST_IDF = 0.05
#: Special tokens have this weight, which is as good as 0, but not 0 in half precision: a text that has nothing else is
#: pooled as without weights.
NO_WEIGHT = 1e-7


@dataclass(frozen=True)
class TokenCounts:
    """How often the tokens of a vocabulary occur in a corpus. Special tokens and prompts are not counted.

    Those of several machines are added up.

    Args:
        tokens: occurrences of each token, `[vocabulary]`.
        documents: documents that have the token at least once, `[vocabulary]`.
        n_documents: documents that were counted.
    """

    tokens: np.ndarray
    documents: np.ndarray
    n_documents: int

    @classmethod
    def of(cls, documents: Iterable[Ids], vocabulary: int) -> TokenCounts:
        """Count the tokens of documents, given as their token ids.

        >>> counts = TokenCounts.of([np.array([1, 1, 2]), np.array([2])], vocabulary=4)
        >>> counts.tokens.tolist(), counts.documents.tolist(), counts.n_tokens
        ([0, 2, 2, 0], [0, 1, 2, 0], 4)
        """
        tokens = np.zeros(vocabulary, np.int64)
        in_documents = np.zeros(vocabulary, np.int64)
        n_documents = 0
        for ids in documents:
            occurrences = np.bincount(ids, minlength=vocabulary)
            tokens += occurrences
            in_documents += occurrences > 0
            n_documents += 1
        return cls(tokens, in_documents, n_documents)

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            self.tokens + other.tokens, self.documents + other.documents, self.n_documents + other.n_documents
        )

    @property
    def n_tokens(self) -> int:
        """How many tokens were counted."""
        return int(self.tokens.sum())


def sif(counts: TokenCounts) -> np.ndarray:
    """Smooth inverse frequency: `a / (a + share)`, where `share` is the token's part of all tokens of the corpus.

    A token that the corpus lacks counts like one that occurs once.

    Source: Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings", ICLR.
    Differs: the vectors are those of a transformer, the counts are those of the corpus that is searched, and no
        principal component is removed.

    >>> sif(TokenCounts.of([np.array([1] * 9_999 + [2])], vocabulary=4)).round(4).tolist()
    [0.5, 0.0001, 0.5, 0.5]
    """
    share = np.maximum(counts.tokens, 1) / max(counts.n_tokens, 1)
    return SIF_A / (SIF_A + share)


def idf(counts: TokenCounts) -> np.ndarray:
    """Inverse document frequency: `ln((N + 1) / (n + 0.5))` of `N` documents, `n` with the token; at least 0.05.

    A token that the corpus lacks counts like one that is in one document.

    >>> idf(TokenCounts.of([np.array([1]), np.array([1, 2])], vocabulary=4)).round(3).tolist()
    [0.693, 0.182, 0.693, 0.693]
    """
    rarity = np.log((counts.n_documents + 1) / (np.maximum(counts.documents, 1) + 0.5))
    return np.maximum(rarity, LEAST_IDF)


#: Rule -> the weights `[vocabulary]` of a corpus with these counts.
RULES: Mapping[str, Callable[[TokenCounts], np.ndarray]] = {"sif": sif, "idf": idf}


def special_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids of special tokens, without that of unknown words, which stands for content if it has no second role."""
    roles = dict(tokenizer.special_tokens_map)
    unknown = roles.pop("unk_token", None)
    if unknown in roles.values():
        unknown = None
    return [token for token in tokenizer.all_special_ids if tokenizer.convert_ids_to_tokens(token) != unknown]


class _Vocabulary(list[str]):
    """A list that a printed model shows in two words and not in half a megabyte."""

    def __repr__(self) -> str:
        return f"<{len(self):,} tokens>"


class _Weights(dict[str, float]):
    """A table that a printed model shows in two words."""

    def __repr__(self) -> str:
        return f"<{len(self):,} weights>"


class TokenWeights(WordWeights):
    """sentence-transformers' `WordWeights`, which also passes on the weight of each token, for several vectors.

    Args:
        vocab: the names of all tokens in the order of their ids.
        word_weights: name -> weight.
        unknown_word_weight: the weight of a token without one.
        counted: in words, what was counted; for the model card.
    """

    config_keys = [*WordWeights.config_keys, "counted"]

    def __init__(
        self,
        vocab: list[str],
        word_weights: dict[str, float],
        unknown_word_weight: float = 1.0,
        counted: str = "",
    ) -> None:
        super().__init__(_Vocabulary(vocab), _Weights(word_weights), unknown_word_weight)
        self.counted = counted
        self.requires_grad_(False)

    @classmethod
    def of_corpus(cls, counts: TokenCounts, rule: Rule, tokenizer: PreTrainedTokenizerBase) -> Self:
        """A module with the weights of a corpus. An id without a token has a name of its own.

        Raises:
            InputError: if no token was counted.
        """
        if counts.n_tokens == 0:
            raise InputError(
                "weights need a corpus with at least 1 token, got 0: give documents that have text."
            )
        weights = RULES[rule](counts).astype(np.float32)
        weights[special_ids(tokenizer)] = NO_WEIGHT
        names = [f"[id {token}]" for token in range(len(weights))]
        for name, token in tokenizer.get_vocab().items():
            if token < len(names):
                names[token] = name
        counted = f"{rule} of {counts.n_tokens:,} tokens in {counts.n_documents:,} documents"
        return cls(names, dict(zip(names, weights.tolist(), strict=True)), counted=counted)

    def stock(self) -> WordWeights:
        """The same weights in sentence-transformers' own class, whose sums hold the weights of a prompt too."""
        module = WordWeights(self.vocab, self.word_weights, self.unknown_word_weight)
        module.requires_grad_(False)
        return module

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Multiply `token_embeddings` `[b, n, d]` by the weights of their tokens, which the `TokenBatch` gets too.

        A prompt has no weight, however it was given: the pooling leaves its tokens out, and so must their sum.
        """
        weights = self.emb_layer(features["input_ids"]).squeeze(-1) * features["attention_mask"]
        prompt_length = int(features.get("prompt_length") or 0)
        weights[:, :prompt_length] = 0
        tokens = features["token_embeddings"] * weights[:, :, None].to(features["token_embeddings"].dtype)
        weighted = {**features, "token_embeddings": tokens, "token_weights_sum": weights.sum(1)}
        if BATCH in features:
            weighted[BATCH] = replace(features[BATCH], weights=weights)
        return weighted
