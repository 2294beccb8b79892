"""Train one model of the pair: `python -m experiments.train RECIPE {ape,rope} --books FILE --out DIR`.

The same command with the other word trains the other model, on the same batches in the same order. The command writes a
checkpoint every `--every` steps, and continues from the newest checkpoint in `--out`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from experiments.export import export
from experiments.models import BUILDERS, embed
from experiments.phrases import Batch, batch_at, held_out_batch, shares_of
from experiments.recipe import Recipe, load_recipe
from experiments.text import Corpus, open_corpus, open_vocabulary, read_texts

HELD_OUT_PHRASES = 128


def info_nce(queries: torch.Tensor, documents: torch.Tensor, temperature: float) -> torch.Tensor:
    """Each query against all documents, and each document against all queries."""
    scores = queries @ documents.T / temperature
    labels = torch.arange(len(queries), device=queries.device)
    return (nn.functional.cross_entropy(scores, labels) + nn.functional.cross_entropy(scores.T, labels)) / 2


def loss_of(model: nn.Module, batch: Batch, temperature: float, device: torch.device) -> torch.Tensor:
    queries, documents = (torch.from_numpy(ids).to(device) for ids in (batch.queries, batch.documents))
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        sides = embed(model, queries), embed(model, documents)
    loss = info_nce(sides[0].float(), sides[1].float(), temperature)
    if not torch.isfinite(loss):
        raise FloatingPointError(
            "The loss is not finite. Lower the learning rate. The last checkpoint is not damaged."
        )
    return loss


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch, at_once: int = 16) -> float:
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


def newest_checkpoint(folder: Path) -> Path | None:
    return max(folder.glob("step-*.pt"), default=None)


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write under another name, then rename, so that a kill never leaves half a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:06d}.pt"
    part = path.with_suffix(".part")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, part)
    part.replace(path)


def train_steps(
    recipe: Recipe, positions: str, corpus: Corpus, out: Path, every: int = 100, device: str = "cpu"
) -> Iterator[tuple[int, float, nn.Module]]:
    """Train from the newest checkpoint in `out` to the recipe's last step. Yields step, loss and model."""
    where = torch.device(device)
    model = BUILDERS[positions](recipe.shape, recipe.seed).to(where).train()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=recipe.weight_decay)
    start = 0
    checkpoint = newest_checkpoint(out / positions)
    if checkpoint is not None:
        saved = torch.load(checkpoint, weights_only=True, map_location=where)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]
    shares = shares_of(corpus.chapters)
    for step in range(start, recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr_at(step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, batch_at(recipe, corpus.chapters, shares, step), recipe.temperature, where)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        done = step + 1
        if done % every == 0 or done == recipe.steps:
            save_checkpoint(out / positions, done, model, optimizer)
        yield done, loss.item(), model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("positions", choices=sorted(BUILDERS))
    parser.add_argument(
        "--books", type=Path, required=True, help=".jsonl.gz, one chapter a line, field `text`"
    )
    parser.add_argument("--out", type=Path, required=True, help="checkpoints, log and the finished model")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (bf16)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    args.out.mkdir(parents=True, exist_ok=True)
    vocabulary = open_vocabulary(args.out / "tokenizer.json", read_texts(args.books), recipe.shape.vocab_size)
    corpus = open_corpus(args.out / "corpus.npz", args.books, vocabulary)
    held_out = held_out_batch(corpus.held_out, HELD_OUT_PHRASES, recipe.shape.trained_len)
    began = time.monotonic()
    model = None
    for step, loss, model in train_steps(recipe, args.positions, corpus, args.out, args.every, args.device):
        row = {"step": step, "loss": round(loss, 4), "seconds": round(time.monotonic() - began)}
        if step % args.every == 0 or step == recipe.steps:
            row["accuracy"] = round(accuracy(model, held_out), 4)
            print(json.dumps(row), flush=True)
        with (args.out / f"{args.positions}.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(row) + "\n")
    if model is None:
        raise SystemExit(
            f"Nothing is left to train: the checkpoint in {args.out} has all {recipe.steps} steps."
        )
    export(model, vocabulary, recipe, args.out / f"{recipe.name}-{args.positions}")


if __name__ == "__main__":
    main()
