"""Train one model of a pair: `python -m training.train RECIPE {ape,rope} --data DIR --out DIR`.

The other model is the same command with the other word: same initial weights, same batches in the same order.
A checkpoint is written every `--every` steps; the command resumes from it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
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
    labels = torch.arange(len(queries))
    back = scores[:, : len(queries)].T
    return (nn.functional.cross_entropy(scores, labels) + nn.functional.cross_entropy(back, labels)) / 2


def optimizer_for(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW; biases, norms and embedding tables are not decayed."""
    decayed = [p for n, p in model.named_parameters() if p.ndim == 2 and "embeddings" not in n]
    rest = [p for n, p in model.named_parameters() if p.ndim != 2 or "embeddings" in n]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.98))


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, lr: float, temperature: float
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = lr
    queries = embed(model, torch.from_numpy(batch.queries))
    documents = embed(model, torch.from_numpy(batch.documents), torch.from_numpy(batch.document_offsets))
    loss = info_nce(queries, documents, temperature)
    if not torch.isfinite(loss):
        raise FloatingPointError("the loss is not finite; the last checkpoint is intact: lower the rate")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def save_checkpoint(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write beside, then rename: a kill never leaves half a checkpoint."""
    part = path.with_suffix(".part")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, part)
    part.replace(path)


def train(
    recipe: Recipe, positions: str, data: Path, out: Path, tokenizer: Tokenizer, every: int
) -> nn.Module:
    """Train to the recipe's last step and return the model."""
    maker = PairMaker(open_corpus(out / "corpus.pkl", data, tokenizer), tokenizer)
    model = BUILDERS[positions](recipe.shape, recipe.seed).train()
    optimizer = optimizer_for(model, recipe)
    checkpoint, log = out / f"{positions}.pt", out / f"{positions}.jsonl"
    start = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["step"]
    began = time.monotonic()
    bar = tqdm(range(start, recipe.total_steps), initial=start, total=recipe.total_steps, desc=positions)
    for step in bar:
        batch = batch_at(recipe, maker, step)
        stage = recipe.stage_at(step)
        loss = train_step(model, optimizer, batch, recipe.lr_at(step), stage.temperature)
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
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe = load_recipe(args.recipe)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = open_vocabulary(args.out / "tokenizer.json", read_texts(args.data), recipe.shape.vocab_size)
    model = train(recipe, args.positions, args.data, args.out, tokenizer, args.every)
    export(model, tokenizer, recipe, args.out / f"{recipe.name}-{args.positions}")


if __name__ == "__main__":
    main()
