"""How well a model finds the passage of a phrase in chapters that training never saw."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from training.models import embed
from training.phrases import DROPPED, PHRASE_TOKENS, Batch, pad, passage, shares_of


def held_out_batch(chapters: list[np.ndarray], count: int, length: int) -> Batch:
    """`count` phrases without a tenth of their tokens, and their passages. They are always the same."""
    rng = np.random.default_rng([0, count, length])
    shares = shares_of(chapters)
    queries, documents = [], []
    for _ in range(count):
        document = passage(rng, chapters, shares, length - 2)
        width = int(rng.integers(PHRASE_TOKENS[0], PHRASE_TOKENS[1] + 1))
        at = int(rng.integers(length - 2 - width + 1))
        kept = rng.random(width) >= DROPPED
        kept[0] = True
        queries.append(document[at : at + width][kept])
        documents.append(document)
    return Batch(pad(queries), pad(documents))


@torch.no_grad()
def found(model: nn.Module, batch: Batch, at_once: int = 16) -> float:
    """Share of the queries whose own document scores highest."""
    device = next(model.parameters()).device
    sides = [
        torch.cat(
            [
                embed(model, torch.from_numpy(ids[i : i + at_once]).to(device))
                for i in range(0, len(ids), at_once)
            ]
        )
        for ids in (batch.queries, batch.documents)
    ]
    best = (sides[0] @ sides[1].T).argmax(1).cpu()
    return (best == torch.arange(len(best))).float().mean().item()
