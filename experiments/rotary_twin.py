"""The rotary twin of an embedding model with learned positions, by distillation without labels.

The twin has the teacher's weights, and rotary positions in place of position rows. It learns the teacher's token
vectors on short texts. One command trains the variants of a recipe one after the other, each on the same tokens:

    python -m experiments.rotary_twin TEACHER --texts books.jsonl.gz peps.jsonl.gz --out results/twins

Each finished variant is a folder that sentence-transformers loads, and a line of `twins.jsonl`: the cosine to the
teacher by length on texts that it did not learn from, and Acc@1 on Passkey. The same command goes on after an
interruption. Budgets are in tokens, so the load of the machine changes no result.

Source: the conversion is that of E5-RoPE (Zhu et al. 2024, arXiv:2404.12096); jumps of positions are PoSE (Zhu et al.
    2023, arXiv:2309.10400).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import mteb
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn.functional import cosine_similarity
from transformers import BertModel, JinaEmbeddingsV3Model

import mteb_longembed  # noqa: F401 (makes its tasks and models known to mteb)
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.encoders.bases.native import native_config, native_weights

#: Books that no twin learns from: held-out cosines, and the task of chapters, use them.
HELD_OUT = ("adam-smith", "charles-darwin_the-voyage", "charles-dickens_bleak-house", "ralph-waldo-emerson")
BATCH_TOKENS = 4096
#: Lengths of the texts of a batch in tokens, without special tokens, and how often they are drawn.
LENGTHS = {12: 2, 24: 2, 48: 2, 96: 2, 128: 3, 192: 2, 254: 3}
HELD_OUT_LENGTHS = (30, 120, 250)
HELD_OUT_TEXTS = 16
CHECKPOINT_TOKENS = 80_000
SHARED_TOKENS = 500_000  # 1.5 kB each on disk
PEAK_RATE = 3e-4
WARM_UP = 0.065  # share of the steps, at least 20
#: Another seed than that of the measurements, so that no variant is chosen on their documents.
SMALL_TASK = "LongEmbedPasskey-seed1-docs50"
SMALL_LENGTHS = (1024, 4096)


@dataclass(frozen=True)
class Recipe:
    """How a twin learns."""

    token_loss: float = 1.0  # weight of the squared error of token vectors, relative to the teacher's squares
    pooled_loss: float = 2.0  # weight of 1 - cosine of the mean vectors
    all_layers: bool = False  # the squared error of the output of every layer, not only of the last
    theta: float = 10_000.0  # base of the rotary frequencies
    mean_row: bool = True  # the teacher's mean position row is added to its word vectors
    learns: str = ""  # regular expression: only parameters whose names contain it learn
    jumps: int = 0  # largest position in training; 0 means positions without jumps
    batch_tokens: int = BATCH_TOKENS


#: The recipe of the first trial, then one change at a time, then the changes that helped together.
VARIANTS = {
    "baseline": Recipe(),
    "jumps": Recipe(jumps=4096),
    "pooled-loss": Recipe(token_loss=0.0),
    "token-loss": Recipe(pooled_loss=0.0),
    "all-layers": Recipe(all_layers=True),
    "theta-500k": Recipe(theta=500_000.0),
    "no-mean-row": Recipe(mean_row=False),
    "attention": Recipe(learns="self_attn"),
    "queries-keys": Recipe(learns=r"[qk]_proj"),
    "small-batches": Recipe(batch_tokens=1024),
}


class Texts:
    """Token ids of all texts in one array on disk, and where each text starts."""

    def __init__(self, files: Sequence[Path], teacher: SentenceTransformer, folder: Path) -> None:
        self.tokenizer = teacher.tokenizer
        path = folder / "tokens.npz"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._tokenise(files, path)
        arrays = np.load(path)
        self.ids, self.starts, self.is_held_out = arrays["ids"], arrays["starts"], arrays["is_held_out"]

    def _tokenise(self, files: Sequence[Path], path: Path) -> None:
        ids, starts, held_out = [], [0], []
        fast = self.tokenizer.backend_tokenizer
        fast.no_truncation()
        lines = (line for file in files for line in gzip.decompress(file.read_bytes()).splitlines())
        for row in map(json.loads, lines):
            ids.append(np.array(fast.encode(row["text"], add_special_tokens=False).ids, dtype=np.uint16))
            starts.append(starts[-1] + len(ids[-1]))
            held_out.append(row.get("book", "").startswith(HELD_OUT))
        part = path.with_suffix(".part.npz")
        np.savez(part, ids=np.concatenate(ids), starts=np.array(starts), is_held_out=np.array(held_out))
        part.replace(path)

    def draw(self, source: random.Random, n: int, count: int, *, held_out: bool = False) -> Tensor:
        """`[count, n + 2]` ids: n tokens from a random place of a random text, between special tokens."""
        texts = np.flatnonzero((self.is_held_out == held_out) & (np.diff(self.starts) >= n))
        rows = []
        for _ in range(count):
            text = source.choice(texts)
            start = source.randrange(self.starts[text], self.starts[text + 1] - n + 1)
            content = self.ids[start : start + n].astype(np.int64)
            rows.append([self.tokenizer.cls_token_id, *content, self.tokenizer.sep_token_id])
        return torch.tensor(rows)


def convert(teacher: BertModel, recipe: Recipe, trained_len: int) -> JinaEmbeddingsV3Model:
    """The twin before it learns: the teacher's weights, without its position rows."""
    settings = {**teacher.config.to_dict(), "rope_theta": recipe.theta}
    config = native_config(settings | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    weights = native_weights(teacher.state_dict())
    rows = weights.pop("embeddings.position_embeddings.weight")
    if recipe.mean_row:  # it keeps the scale that the first LayerNorm sees
        words = "embeddings.word_embeddings.weight"
        weights[words] = weights[words] + rows[:trained_len].mean(0)
    twin = JinaEmbeddingsV3Model(config, add_pooling_layer=False)
    twin.load_state_dict(weights)
    for name, parameter in twin.named_parameters():
        parameter.requires_grad_(re.search(recipe.learns, name) is not None)
    return twin


def positions(source: random.Random, n: int, largest: int) -> Tensor:
    """`[1, n]` positions of a batch. Two batches in three have up to three jumps, if `largest` is given."""
    steps = torch.ones(n, dtype=torch.long)
    steps[0] = 0
    if largest and source.random() > 0.35:
        room = largest - n
        for cut in sorted(source.sample(range(1, n), min(source.choice([1, 1, 2, 3]), n - 1))):
            jump = int(source.random() ** 2 * room)
            steps[cut] += jump
            room -= jump
    return steps.cumsum(0)[None]


def layers(
    model: torch.nn.Module, ids: Tensor, position_ids: Tensor | None = None, *, all_layers: bool
) -> list[Tensor]:
    """The outputs `[b, n, d]` of every layer, or of the last."""
    outputs = model(
        ids,
        attention_mask=torch.ones_like(ids),
        output_hidden_states=all_layers,
        **({} if position_ids is None else {"position_ids": position_ids.expand_as(ids)}),
    )
    return list(outputs.hidden_states[1:]) if all_layers else [outputs.last_hidden_state]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """The mean cosine of mean vectors."""
    return cosine_similarity(first.mean(1), second.mean(1)).mean()


class Training:
    """One twin while it learns. Every draw depends on the step alone, so a run goes on exactly where it stopped."""

    def __init__(
        self, name: str, recipe: Recipe, tokens: int, teacher: BertModel, texts: Texts, out: Path
    ) -> None:
        self.name, self.recipe, self.tokens, self.out = name, recipe, tokens, out
        self.teacher, self.texts = teacher, texts
        self.steps = tokens // recipe.batch_tokens
        self.twin = convert(teacher, recipe, max(LENGTHS) + 2)
        learning = [parameter for parameter in self.twin.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            learning, lr=PEAK_RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=True
        )
        self.cosines: dict[str, list[float]] = {}
        self.step, self.seconds = 0, 0.0
        if self._checkpoint.exists():
            state = torch.load(self._checkpoint, weights_only=True)
            self.twin.load_state_dict(state["twin"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.cosines, self.step, self.seconds = state["cosines"], state["step"], state["seconds"]

    @property
    def _checkpoint(self) -> Path:
        return self.out / f"{self.name}.checkpoint"

    def run(self) -> None:
        """Learn to the end, with a checkpoint now and then."""
        began = time.process_time() - self.seconds
        while self.step < self.steps:
            if self.step % (CHECKPOINT_TOKENS // self.recipe.batch_tokens) == 0:
                self._save(time.process_time() - began)
            self._learn()
        self._save(time.process_time() - began)

    def _learn(self) -> None:
        recipe = self.recipe
        source = random.Random(f"{self.step} of {recipe.batch_tokens}")
        n = source.choices(list(LENGTHS), list(LENGTHS.values()))[0]
        ids = self.texts.draw(source, n, max(recipe.batch_tokens // (n + 2), 1))
        wanted = self._teacher_layers(ids)
        outputs = layers(self.twin, ids, positions(source, n + 2, recipe.jumps), all_layers=recipe.all_layers)
        errors = [(b - a).square().mean() / a.square().mean() for a, b in zip(wanted, outputs, strict=True)]
        loss = recipe.token_loss * torch.stack(errors).mean()
        loss = loss + recipe.pooled_loss * (1 - cosine(wanted[-1], outputs[-1]))
        warm = min(1, (self.step + 1) / max(20, WARM_UP * self.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = PEAK_RATE * warm * (0.5 * (1 + math.cos(math.pi * self.step / self.steps)) + 0.01)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.twin.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1

    def _teacher_layers(self, ids: Tensor) -> list[Tensor]:
        """The teacher's outputs. Variants with short budgets share those of the last layer by a file."""
        path = self.out / "teacher" / f"{self.recipe.batch_tokens}-{self.step}.npy"
        if path.exists() and not self.recipe.all_layers:
            return [torch.from_numpy(np.load(path))]
        with torch.no_grad():
            outputs = layers(self.teacher, ids, all_layers=self.recipe.all_layers)
        if self.tokens <= SHARED_TOKENS and not self.recipe.all_layers:
            path.parent.mkdir(exist_ok=True)
            np.save(path, outputs[-1].numpy())
        return outputs

    def _save(self, seconds: float) -> None:
        self.seconds = seconds
        cosines = self.cosines[str(self.step * self.recipe.batch_tokens)] = self._held_out()
        print(f"{self.name} step {self.step} of {self.steps}, {seconds:.0f} s: {cosines}", flush=True)
        state = {
            "twin": self.twin.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "cosines": self.cosines,
        }
        part = self._checkpoint.with_suffix(".part")
        torch.save({**state, "step": self.step, "seconds": self.seconds}, part)
        part.replace(self._checkpoint)

    def _held_out(self) -> list[float]:
        """The cosine to the teacher by length, on books that no twin learns from."""
        source, cosines = random.Random(7), []
        for n in HELD_OUT_LENGTHS:
            ids = self.texts.draw(source, n, HELD_OUT_TEXTS, held_out=True)
            with torch.inference_mode():
                vectors = [layers(model, ids, all_layers=False)[0] for model in (self.teacher, self.twin)]
            cosines.append(round(float(cosine(*vectors)), 4))
        return cosines


def save(twin: JinaEmbeddingsV3Model, teacher_folder: Path, folder: Path) -> None:
    """A folder that sentence-transformers loads: the teacher's, with the twin's configuration and weights."""
    ignored = shutil.ignore_patterns("*.safetensors", "*.bin", "README.md", "data_config.json", ".git*")
    shutil.copytree(teacher_folder, folder, ignore=ignored, dirs_exist_ok=True)
    twin.save_pretrained(folder)


def passkey(folder: Path, out: Path) -> dict[str, float]:
    """Acc@1 in percent by length, with plain extrapolation."""
    scores, evaluations = {}, Evaluations(out / "results")
    for length in SMALL_LENGTHS:
        task = mteb.get_task(SMALL_TASK, eval_splits=[f"test_{length}"])
        evaluations.prepare(task)
        name = f"{folder}+none@{max(SMALL_LENGTHS)}"
        by_subset = evaluations.run(
            mteb.get_model(name, device="cpu"), mteb.get_model_meta(name), task, f"test_{length}"
        )
        scores[str(length)] = 100 * float(np.mean(list(next(iter(by_subset.values())).values())))
    return scores


def train(
    name: str, recipe: Recipe, tokens: int, teacher_folder: Path, texts: Texts, out: Path
) -> dict[str, object]:
    """Train a twin to the end, save and measure it."""
    teacher = BertModel.from_pretrained(teacher_folder, add_pooling_layer=False).eval()
    training = Training(name, recipe, tokens, teacher, texts, out)
    training.run()
    save(training.twin, teacher_folder, out / name)
    line = {"name": name, "tokens": tokens, "recipe": asdict(recipe), "cosines": training.cosines}
    return line | {"cpu_seconds": round(training.seconds), "passkey": passkey(out / name, out)}


def main() -> None:
    """Train the variants that are not in `twins.jsonl`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "teacher", type=Path, help="folder of a sentence-transformers model with BERT's layers"
    )
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="lines with `text`, gzip")
    parser.add_argument("--out", type=Path, default=Path("results/twins"))
    parser.add_argument("--tokens", type=int, default=300_000, help="learned from by each variant")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument(
        "--combined", metavar="NAME", help="one twin of this name with the changes of all variants"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    texts = Texts(args.texts, SentenceTransformer(str(args.teacher), device="cpu"), args.out)
    recipes = {name: VARIANTS[name] for name in args.variants}
    if args.combined:
        changes = {k: v for r in recipes.values() for k, v in asdict(r).items() if v != getattr(Recipe(), k)}
        recipes = {args.combined: replace(Recipe(), **changes)}
    lines = args.out / "twins.jsonl"
    for name, recipe in recipes.items():
        known = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        if name not in [line["name"] for line in known]:
            line = train(name, recipe, args.tokens, args.teacher, texts, args.out)
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
