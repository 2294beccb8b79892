"""What a base finds if its position ids, or the rows of its position table, are disturbed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import mteb
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)

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


def found_by(task: str, split: str, queries: Embed, documents: Embed) -> dict[str, float]:
    """For every query of a generated task: 1 if its document comes first, else 0.

    Args:
        task: a generated task or variant.
        split: such as `test_512`.
        queries: from the texts of queries to their embeddings.
        documents: the same for documents.
    """
    made = mteb.get_task(task, eval_splits=[split])
    made.load_data()
    data = made.dataset["default"][split]
    ids, documents_ids = data["queries"]["id"], data["corpus"]["id"]
    scores = queries(list(data["queries"]["text"])) @ documents(list(data["corpus"]["text"])).T
    return {
        query: float(documents_ids[place] in data["relevant_docs"][query])
        for query, place in zip(ids, scores.argmax(1), strict=True)
    }
