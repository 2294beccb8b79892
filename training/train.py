"""Train one model of a pair: `python -m training.train RECIPE {ape,rope} --data DIR --out DIR`.

The other model is the same command with the other word: same initial weights, same batches in the same order.
A checkpoint is written every `--every` steps; the command resumes from it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from training.config import Recipe, load_recipe
from training.corpus import open_corpus, read_texts
from training.export import export
from training.models import BUILDERS, embed
from training.pairs import Batch, PairMaker, batch_at
from training.probe import probe
from training.vocabulary import open_vocabulary


def info_nce(queries: torch.Tensor, documents: torch.Tensor, temperature: float) -> torch.Tensor:
    """Each query against all documents, and each answer against all queries."""
    scores = queries @ documents.T / temperature
    labels = torch.arange(len(queries), device=queries.device)
    back = scores[:, : len(queries)].T
    return (nn.functional.cross_entropy(scores, labels) + nn.functional.cross_entropy(back, labels)) / 2


def optimizer_for(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW; biases, norms and embedding tables are not decayed, the position table has a rate of its own."""
    decayed, rest, table = [], [], []
    for name, parameter in model.named_parameters():
        if "position_embeddings" in name:
            table.append(parameter)
        elif parameter.ndim == 2 and "embeddings" not in name:
            decayed.append(parameter)
        else:
            rest.append(parameter)
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay, "share": 1.0},
        {"params": rest, "weight_decay": 0.0, "share": 1.0},
        {"params": table, "weight_decay": 0.0, "share": recipe.table_lr},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=recipe.lr, betas=(0.9, 0.98))


def embed_batch(
    model: nn.Module, batch: Batch, device: torch.device
) -> Iterator[Callable[[slice], torch.Tensor]]:
    """For the queries, then the documents of a batch: a function that embeds a slice of them."""
    for ids, offsets in ((batch.queries, None), (batch.documents, batch.document_offsets)):

        def part(rows: slice, ids: np.ndarray = ids, offsets: np.ndarray | None = offsets) -> torch.Tensor:
            moved = None if offsets is None else torch.from_numpy(offsets[rows]).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                return embed(model, torch.from_numpy(ids[rows]).to(device), moved)

        yield part


def backward(model: nn.Module, batch: Batch, temperature: float, at_once: int, device: torch.device) -> float:
    """Gradients of the loss, and its value.

    Batches of more than `at_once` documents run in parts: all are embedded without gradients, the loss is
    differentiated with respect to the embeddings, and each part is embedded again to carry its gradient on
    (Gao et al. 2021, arXiv:2101.06983).
    """
    sides = list(embed_batch(model, batch, device))
    sizes = (len(batch.queries), len(batch.documents))
    whole = max(sizes) <= at_once
    parts = [[slice(i, i + at_once) for i in range(0, size, at_once)] for size in sizes]
    with torch.set_grad_enabled(whole):
        embedded = [
            torch.cat([side(rows) for rows in rows_of_side]).float()
            for side, rows_of_side in zip(sides, parts, strict=True)
        ]
    if not whole:
        embedded = [e.requires_grad_() for e in embedded]
    loss = info_nce(*embedded, temperature)
    if not torch.isfinite(loss):
        raise FloatingPointError("the loss is not finite; the last checkpoint is intact: lower the rate")
    loss.backward()
    if not whole:
        for side, rows_of_side, cached in zip(sides, parts, embedded, strict=True):
            for rows in rows_of_side:
                side(rows).float().backward(cached.grad[rows])
    return loss.item()


def save_checkpoint(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write beside, then rename: a kill never leaves half a checkpoint."""
    part = path.with_suffix(".part")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, part)
    part.replace(path)


def train(
    recipe: Recipe,
    positions: str,
    maker: PairMaker,
    out: Path,
    every: int = 100,
    at_once: int = 256,
    device: str = "cpu",
) -> nn.Module:
    """Train to the recipe's last step, from the last checkpoint in `out` if there is one; the model."""
    where = torch.device(device)
    model = BUILDERS[positions](recipe.shape, recipe.seed).to(where).train()
    optimizer = optimizer_for(model, recipe)
    checkpoint, log = out / f"{positions}.pt", out / f"{positions}.jsonl"
    start = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True, map_location=where)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]
    began = time.monotonic()
    bar = tqdm(range(start, recipe.total_steps), initial=start, total=recipe.total_steps, desc=positions)
    for step in bar:
        batch = batch_at(recipe, maker, step)
        stage, _ = recipe.place(step)
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(step) * group["share"]
        optimizer.zero_grad(set_to_none=True)
        loss = backward(model, batch, stage.temperature, at_once, where)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        row = {"step": step, "kind": batch.kind, "n": batch.documents.shape[1], "loss": round(loss, 4)}
        done = step + 1
        if done % every == 0 or done == recipe.total_steps:
            save_checkpoint(checkpoint, done, model, optimizer)
            row |= probe(model, maker) | {"seconds": round(time.monotonic() - began)}
            bar.write(json.dumps(row))
        with log.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("positions", choices=sorted(BUILDERS))
    parser.add_argument("--data", type=Path, required=True, help="books.jsonl.gz, python-peps.jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="checkpoints, log and the finished model")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument(
        "--at-once", type=int, default=256, help="documents in memory; larger batches run in parts"
    )
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (bf16)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_vocabulary(args.out / "tokenizer.json", read_texts(args.data), recipe.shape.vocab_size)
    maker = PairMaker(open_corpus(args.out / "corpus.pkl", args.data, tokenizer), tokenizer)
    model = train(recipe, args.positions, maker, args.out, args.every, args.at_once, args.device)
    export(model, tokenizer, recipe, args.out / f"{recipe.name}-{args.positions}")


if __name__ == "__main__":
    main()
