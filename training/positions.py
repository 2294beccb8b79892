"""What a base finds if its position ids, or the rows of its position table, are disturbed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from training.retrieval import Retrieval

#: From the number of tokens of a text to their position ids.
Positions = Callable[[int], torch.Tensor]
#: From texts to embeddings, `[n, d]`.
Embed = Callable[[list[str]], np.ndarray]


def shuffled(seed: int) -> Positions:
    """Position ids in random order. Special tokens keep theirs. Texts must fit into the trained length."""
    generator = torch.Generator().manual_seed(seed)

    def positions(n: int) -> torch.Tensor:
        inner = 1 + torch.randperm(n - 2, generator=generator)
        return torch.cat([torch.tensor([0]), inner, torch.tensor([n - 1])])

    return positions


def everywhere_0(n: int) -> torch.Tensor:
    """Position 0 for all tokens."""
    return torch.zeros(n, dtype=torch.long)


@torch.no_grad()
def embed_at(model: SentenceTransformer, texts: list[str], positions: Positions) -> np.ndarray:
    """Embeddings of texts whose tokens have other position ids than usual, `[n, d]`."""
    rows = []
    for text in texts:
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        hidden = model[0].model(input_ids=ids, position_ids=positions(ids.shape[1])[None]).last_hidden_state
        rows.append(nn.functional.normalize(hidden.mean(1), dim=-1))
    return torch.cat(rows).numpy()


def with_one_row(model: SentenceTransformer) -> SentenceTransformer:
    """A copy of a model with learned positions in which row 0 is the mean of all rows."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        table = changed[0].model.embeddings.position_embeddings.weight
        table[0] = table.mean(0)
    return changed


def hits_of(task: Retrieval, queries: Embed, documents: Embed) -> dict[str, float]:
    """For every query of a task: 1 if a right document comes first, else 0.

    Args:
        task: its texts and right answers.
        queries: from the texts of queries to their embeddings.
        documents: the same for documents.
    """
    scores = queries(list(task.queries["text"])) @ documents(list(task.corpus["text"])).T
    ids = task.corpus["id"]
    return {
        query: float(ids[place] in task.right[query])
        for query, place in zip(task.queries["id"], scores.argmax(1), strict=True)
    }
