"""A bag of words as a yardstick: what do the tasks ask of a model, and how much does a width hold?

`python -m training.words training/configs/mini.json --books FILE --tokenizer FILE` trains one vector for each word
piece (`StaticEmbedding` of sentence-transformers), on the same text and vocabulary as the embedded models. A document
is the mean of its vectors, so no order, position or context can help. Beside it stand random vectors, weighted by the
pieces' inverse document frequency in the same text. They can only count shared pieces, and their width says how well.
In the last column each piece has a dimension of its own, so that nothing disturbs the count.

The command prints a Markdown table: Acc@1 on Passkey and Needle, and nDCG@10 on QMSum if `LONGEMBED_QMSUM` names its
folder, in percent with 95 % intervals.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer
from torch import nn

from training.findings import NEEDLE, PASSKEY
from training.inputs import add_inputs, open_inputs
from training.phrases import pair, shares_of
from training.retrieval import QMSUM_VARIABLE, Retrieval, generated, qmsum
from training.train import info_nce
from training.windows import interval, scores_of

LENGTHS = (64, 128, 256, 512)
#: The number of excerpts in a query, at most, and their tokens.
EXCERPTS = 4
EXCERPT_TOKENS = (8, 32)
WIDTHS = (192, 384, 768)
TEMPERATURE = 0.05


class Pairs(NamedTuple):
    """Token ids of queries and of their documents."""

    queries: list[np.ndarray]
    documents: list[np.ndarray]


def excerpts(
    rng: np.random.Generator, chapters: list[np.ndarray], shares: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """One to four excerpts of a chapter, and a passage of `length` tokens from anywhere in it.

    The query is about the same things as its document, but need not share a phrase with it, as a summary of a long text
    and the text's first words.
    """
    ids = chapters[rng.choice(len(chapters), p=shares)]
    start = rng.integers(len(ids) - length + 1)
    widths = rng.integers(EXCERPT_TOKENS[0], EXCERPT_TOKENS[1] + 1, size=rng.integers(1, EXCERPTS + 1))
    starts = [rng.integers(len(ids) - width + 1) for width in widths]
    query = np.concatenate([ids[at : at + width] for at, width in zip(starts, widths, strict=True)])
    return query, ids[start : start + length]


def pairs_at(chapters: list[np.ndarray], shares: np.ndarray, seed: int, step: int, count: int) -> Pairs:
    """The pairs of one step: phrases as in the embedded models' training, and as many excerpts."""
    rng = np.random.default_rng([seed, step])
    length = int(rng.choice(LENGTHS))
    kinds = (pair, excerpts)
    rows = [kinds[i % 2](rng, chapters, shares, length) for i in range(count)]
    return Pairs([query for query, _ in rows], [document for _, document in rows])


def means(words: nn.EmbeddingBag, rows: list[np.ndarray]) -> torch.Tensor:
    """The normalised mean vector of each row, `(rows, width)`."""
    ids = torch.from_numpy(np.concatenate(rows).astype(np.int64))
    offsets = torch.from_numpy(np.cumsum([0, *map(len, rows[:-1])]))
    return nn.functional.normalize(words(ids, offsets), dim=-1)


def train_words(
    chapters: list[np.ndarray],
    vocab_size: int,
    width: int,
    steps: int,
    count: int,
    seed: int,
    lr: float = 3e-3,
) -> np.ndarray:
    """One trained vector for each word piece, `(vocab_size, width)`. The rate falls linearly to zero."""
    torch.manual_seed(seed)
    words = nn.EmbeddingBag(vocab_size, width, mode="mean")
    nn.init.normal_(words.weight, std=0.03)  # small, because every step of Adam has the length of the rate
    optimizer = torch.optim.Adam(words.parameters())
    shares = shares_of(chapters)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / steps)
        pairs = pairs_at(chapters, shares, seed, step, count)
        optimizer.zero_grad(set_to_none=True)
        info_nce(means(words, pairs.queries), means(words, pairs.documents), TEMPERATURE).backward()
        optimizer.step()
    return words.weight.detach().numpy()


def rarity(chapters: list[np.ndarray], vocab_size: int, length: int = 512) -> np.ndarray:
    """Each word piece's inverse document frequency: log of passages over passages that hold it."""
    passages = [ids[at : at + length] for ids in chapters for at in range(0, len(ids), length)]
    found = np.zeros(vocab_size)
    for ids in passages:
        found[np.unique(ids)] += 1
    return np.log((len(passages) + 1) / (found + 0.5))


def random_words(weights: np.ndarray, width: int, seed: int) -> np.ndarray:
    """A random direction for each word piece, with a length in proportion to its weight."""
    return weights[:, None] * np.random.default_rng(seed).standard_normal((len(weights), width))


def model_of(words: np.ndarray, tokenizer: Tokenizer, first: int | None) -> SentenceTransformer:
    """An ordinary model that reads the `first` tokens of a text, or the whole text if `first` is None."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.no_truncation()
    if first is not None:
        tokenizer.enable_truncation(first)
    embedding = StaticEmbedding(tokenizer, embedding_weights=words.astype(np.float32))
    return SentenceTransformer(modules=[embedding, Normalize()], device="cpu")


def score(words: np.ndarray, tokenizer: Tokenizer, task: Retrieval, first: int | None) -> str:
    """The score of a task with its interval."""
    model = model_of(words, tokenizer, first)
    similar = model.similarity(
        model.encode_query(list(task.queries["text"])), model.encode_document(list(task.corpus["text"]))
    )
    ids = list(task.corpus["id"])
    found = {
        query: dict(zip(ids, row, strict=True))
        for query, row in zip(task.queries["id"], similar.tolist(), strict=True)
    }
    known = interval(scores_of(found, task), task)
    return f"{known.mean:.1f} ({known.low:.0f} to {known.high:.0f})"


def tasks() -> Iterator[tuple[str, Retrieval, int | None]]:
    """Name, task and number of tokens that are read."""
    for name, lengths in (
        (PASSKEY, (256, 512, 4096)),
        (NEEDLE, (512, 4096)),
    ):
        for length in lengths:
            task = generated(name, length)
            yield task.name, task, None
    folder = os.environ.get(QMSUM_VARIABLE)
    if folder:
        task = qmsum(Path(folder), None)
        yield "QMSum, its first 512 tokens", task, 512
        yield "QMSum", task, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_inputs(parser)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--pairs", type=int, default=512, help="pairs a step")
    args = parser.parse_args()
    logging.getLogger("mteb").setLevel(logging.CRITICAL)
    recipe, tokenizer, corpus = open_inputs(args)
    size, width = recipe.shape.vocab_size, recipe.shape.hidden_size
    weights = rarity(corpus.chapters, size)
    bags = {
        f"trained, width {width}": train_words(
            corpus.chapters, size, width, args.steps, args.pairs, recipe.seed
        )
    }
    bags |= {f"random, width {width}": random_words(weights, width, recipe.seed) for width in WIDTHS}
    bags[f"counted, width {size}"] = np.diag(weights)
    print("| bag of words | " + " | ".join(bags) + " |\n|---|" + "---:|" * len(bags), flush=True)
    for name, task, first in tasks():
        cells = [score(words, tokenizer, task, first) for words in bags.values()]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
