"""Quick measurements of a model in training: does it use order, does it find a detail in a long text."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from training import facts
from training.models import embed
from training.pairs import Ids, PairMaker, pad


def role_accuracy(
    model: nn.Module, maker: PairMaker, count: int, length: int, permuted: bool = False, start: int = 0
) -> float:
    """Share of questions whose text, from position `start` on, scores above its twin with the roles exchanged."""
    rng = np.random.default_rng(1)
    drawn = [facts.relation(rng, maker.corpus.plain_words) for _ in range(count)]
    queries, statements = map(maker.encode, facts.both_ways(drawn))
    filler = maker.filler(rng, length)
    documents = [
        maker.hide(np.random.default_rng(i // 2), filler, [s], length) for i, s in enumerate(statements)
    ]
    return share_right(model, queries, documents, permuted, start)


def share_right(
    model: nn.Module, queries: list[Ids], documents: list[Ids], permuted: bool, start: int = 0
) -> float:
    """Share of queries that prefer their document to its twin: rows 0 and 1, 2 and 3, ... are twins."""
    count = len(queries) // 2
    q = embed_permuted(model, pad(queries, 64), permuted)
    d = embed_permuted(model, pad(documents, 512), permuted, start)
    scores = (q @ d.T).view(count, 2, count, 2)[torch.arange(count), :, torch.arange(count)]
    right = torch.stack([scores[:, 0, 0] > scores[:, 0, 1], scores[:, 1, 1] > scores[:, 1, 0]])
    return right.float().mean().item()


def embed_permuted(model: nn.Module, ids: np.ndarray, permuted: bool, start: int = 0) -> torch.Tensor:
    """Embed with the usual positions, or with each row's position ids in random order (specials stay)."""
    rows = torch.from_numpy(ids).to(next(model.parameters()).device)
    if not permuted:
        return embed(model, rows, torch.full((len(rows),), start, device=rows.device)).cpu()
    generator = torch.Generator().manual_seed(0)
    out = []
    for row in rows:
        row = row[row != 0]
        order = torch.cat(
            [
                row.new_zeros(1),
                1 + torch.randperm(len(row) - 2, generator=generator),
                row.new_tensor([len(row) - 1]),
            ]
        )
        hidden = model(input_ids=row[None], position_ids=order[None]).last_hidden_state
        out.append(nn.functional.normalize(hidden.mean(1), dim=-1))
    return torch.cat(out).cpu()


def detail_accuracy(model: nn.Module, maker: PairMaker, count: int, length: int) -> float:
    """Share of questions that find their text among `count` texts alike but for one sentence each."""
    rng = np.random.default_rng(2)
    names = [f"{facts.syllable_name(rng)} {facts.syllable_name(rng)}" for _ in range(count)]
    codes = rng.integers(1000, 9999, count)
    statements = maker.encode(
        [
            f"the locker of {n} opens at {k} . yes , {k} opens the locker of {n} ."
            for n, k in zip(names, codes, strict=True)
        ]
    )
    queries = maker.encode([f"at what does the locker of {n} open ?" for n in names])
    filler = maker.filler(np.random.default_rng(5), length)
    documents = [maker.hide(rng, filler, [s], length) for s in statements]
    scores = embed_chunks(model, pad(queries, 64)) @ embed_chunks(model, pad(documents, length + 2)).T
    return (scores.argmax(1) == torch.arange(count)).float().mean().item()


def embed_chunks(model: nn.Module, ids: np.ndarray) -> torch.Tensor:
    return torch.cat(
        [
            embed(model, torch.from_numpy(ids[i : i + 16]).to(next(model.parameters()).device)).cpu()
            for i in range(0, len(ids), 16)
        ]
    )


@torch.no_grad()
def probe(model: nn.Module, maker: PairMaker) -> dict[str, float]:
    model.eval()
    row = {
        "roles": role_accuracy(model, maker, 48, 30),
        "roles_at_300": role_accuracy(model, maker, 48, 30, start=300),
        "roles_permuted": role_accuracy(model, maker, 48, 30, permuted=True),
        "detail_256": detail_accuracy(model, maker, 32, 254),
        "detail_512": detail_accuracy(model, maker, 32, 510),
    }
    model.train()
    return {name: round(value, 3) for name, value in row.items()}
