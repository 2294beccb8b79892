"""All measurements that need an accelerator, in one call: kernels, speed and memory.

    python experiments/accelerator.py --minutes 8 --out FOLDER
    python experiments/accelerator.py --tiny --out FOLDER          # on a CPU, in less than two minutes

The script writes `accelerator.json` and `accelerator.md` into FOLDER after each row, so a kill loses at most one row.
It looks at the clock before each row: what no time is left for is listed as skipped. A row that fails is
listed with its error, and the rows before it stay. The parts run in this order:

- `correctness`: every kernel path compared with the same function in fp32 on the CPU, whole models compared with the
  same models in fp32 on the CPU, and a document alone compared with the same document in a batch (batch invariance),
  for each number type.
- `end to end`: our engine compared with sentence-transformers with its best settings (fp16 and bf16; SDPA;
  FlashAttention 2 with unpadded inputs if the `flash_attn` package is installed; the best of several batch sizes).
- `strategies`: the cost of each strategy relative to its base at the same length. Goal: `se` at most 1.15 at 32,768
  tokens.
- `utilisation`: FLOP/s of encoding divided by FLOP/s of plain matrix products. Goal: 50 % at 4,096 tokens.
- `memory`: the peak of one document's forward pass, for several numbers of tokens.

The machine may be bare: mteb, datasets and an installed copy of this package are not needed, because the script uses
the checkout that it is in. It needs the versions in `NEEDED`, and says first in one sentence what is missing. Missing
packages come as wheels in a folder beside it. On a machine with the package index:

    python -m pip download --no-deps --only-binary=:all: -d wheels sentence-transformers==6.2.0 xxhash filelock tqdm

If the bare machine has another platform, name it with `--platform` and `--python-version`. On the bare machine:

    python -m pip install --no-index --no-deps --find-links wheels sentence-transformers==6.2.0 xxhash filelock tqdm

The folder has less than 2 MiB. With its version, pip replaces an older sentence-transformers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

#: The oldest version that works of each package that is imported.
NEEDED = {
    "torch": "2.11", "transformers": "5.17", "sentence-transformers": "6.2", "numpy": "2.0", "xxhash": "3.0",
    "filelock": "3.13", "tqdm": "4.66", "huggingface-hub": "1.5", "packaging": "23.0", "safetensors": "0.4",
}  # fmt: skip


def missing_packages(installed: Callable[[str], str] = metadata.version) -> str | None:
    """One sentence that says which packages are missing or too old, and what installs them. None if all are there."""

    def numbers(version: str) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", version)[:2]]

    wrong = {}
    for name, oldest in NEEDED.items():
        try:
            version = installed(name)
        except metadata.PackageNotFoundError:
            wrong[name] = f"{name} {oldest} (not installed)"
            continue
        if numbers(version) < numbers(oldest):
            wrong[name] = f"{name} {oldest} (got {version})"
    if not wrong:
        return None
    install = " ".join(f"'{name}>={NEEDED[name]}'" for name in wrong)
    return f"this kit needs at least {', '.join(wrong.values())}: python -m pip install --no-deps {install}."


if __name__ == "__main__" and (sentence := missing_packages()):
    raise SystemExit(sentence)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: E402
from torch import Tensor  # noqa: E402
from transformers import Qwen3Config, Qwen3Model  # noqa: E402

import mteb_longembed as longembed  # noqa: E402
from experiments import speed  # noqa: E402
from experiments.materials import MIXES, SIZES, base_model, documents, rotary_model  # noqa: E402
from experiments.materials import tokenizer as wordpiece  # noqa: E402
from experiments.measuring import table  # noqa: E402
from mteb_longembed.encoders.attention import devices, kernels  # noqa: E402
from mteb_longembed.encoders.attention.context import PackedDocuments  # noqa: E402
from mteb_longembed.encoders.attention.packed import attend_packed, attend_packed_by_plan  # noqa: E402
from mteb_longembed.encoders.attention.plan import (  # noqa: E402
    DualChunkPlan,
    RelativePositionAttention,
    ReRoPEPlan,
    SelfExtendPlan,
)
from mteb_longembed.encoders.attention.rotation import Rotation  # noqa: E402
from mteb_longembed.encoders.families.attention_functions import attend_plain  # noqa: E402

Row = list[object]


class NoTimeError(Exception):
    """The time is over."""


@dataclass
class Sheet:
    """The tables of one part.

    Args:
        end: when the time is over.
        save: called after each row.
    """

    end: float
    save: Callable[[], None]
    tables: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fill(self, title: str, head: list[str], rows: Iterable[Row]) -> None:
        """Add rows to a table. The clock is looked at before each; one that fails ends `rows` with a note."""
        table = self.tables.setdefault(title, {"head": head, "rows": []})
        source = iter(rows)
        while True:
            if time.monotonic() > self.end:
                self.notes.append(f"{title}: skipped after {len(table['rows'])} rows: no time was left.")
                raise NoTimeError
            try:
                row = next(source, None)
            except Exception as error:  # the others must still run
                traceback.print_exc()
                done = len(table["rows"])
                self.notes.append(f"{title}: failed after {done} rows: {type(error).__name__}: {error}")
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                return
            if row is None:
                return
            table["rows"].append(row)
            self.save()


@dataclass
class Scale:
    """The sizes of everything, and the device."""

    device: str
    half_dtypes: tuple[str, ...]
    size: str = "base"
    lengths: tuple[int, ...] = (512, 4096, 32_768)
    tokens_a_run: int = 262_144
    strategy_lengths: tuple[int, ...] = (4096, 32_768)
    memory_lengths: tuple[int, ...] = (4096, 16_384, 32_768, 65_536, 131_072)
    kernel_lengths: tuple[int, ...] = (1, 513, 4096, 700, 64)
    batch_sizes: tuple[int, ...] = (8, 32, 128)
    rounds: int = 3
    causal_shape: dict[str, int] = field(default_factory=lambda: {
        "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 3072,
    })  # fmt: skip

    @classmethod
    def tiny(cls) -> Scale:
        """Sizes for a CPU, which then takes less than two minutes. The code is the same."""
        shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                 "head_dim": 16, "intermediate_size": 128}  # fmt: skip
        return cls(
            "cpu", ("bfloat16",), "tiny", (512,), 2048, (1024,), (1024,), (1, 70, 200, 64), (4,), 1, shape
        )

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


# ---- correctness ------------------------------------------------------------------------------------------


def kernel_paths() -> Iterator[tuple[str, Callable[..., Tensor], Callable[..., Tensor]]]:
    """Names and functions of packed q, k, v: each kernel path, and the same path with one document in each call."""
    rotation = Rotation(10_000.0 ** -(torch.arange(32) / 32))
    plans = {
        "none": None,
        "se": RelativePositionAttention(SelfExtendPlan(lambda n: (9, 64)), rotation),
        "rerope": RelativePositionAttention(ReRoPEPlan(96), rotation),
        "dca": RelativePositionAttention(DualChunkPlan(72, 95), rotation),
    }

    def packed(
        planned: RelativePositionAttention | None, causal: bool, window: int | None
    ) -> Callable[..., Tensor]:
        def run(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
            held = PackedDocuments(lengths, q.device)
            if planned is None:
                return attend_packed(held, q, k, v, scale=0.125, causal=causal, window=window)
            return attend_packed_by_plan(held, q, k, v, planned, scale=0.125, causal=causal)

        return run

    def padded(
        planned: RelativePositionAttention | None, causal: bool, window: int | None = None
    ) -> Callable[..., Tensor]:
        def run(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
            out = []
            for parts in zip(*(x.split(lengths) for x in (q, k, v)), strict=True):
                one = [x.transpose(0, 1)[None] for x in parts]
                if window is not None:
                    out.append(attend_plain(*one, scale=0.125, causal=causal, window=window))
                elif planned is None:
                    out.append(kernels.attend(*one, scale=0.125, causal=causal)[0])
                else:
                    out.append(planned(*one, scale=0.125, causal=causal))
            return torch.cat([x[0].transpose(0, 1) for x in out])

        return run

    for causal in (False, True):
        kind = "causal" if causal else "both ways"
        for name, planned in plans.items():
            alone = padded(planned, causal)
            yield f"packed, {name}, {kind}", packed(planned, causal, None), alone
            yield f"one document a call, {name}, {kind}", alone, alone
        yield f"packed, window of 128, {kind}", packed(None, causal, 128), padded(None, causal, 128)


def correctness(scale: Scale, sheet: Sheet) -> None:
    """The largest differences from fp32 on the CPU, for kernels, models and batches."""
    generator = torch.Generator().manual_seed(0)
    for kv_heads in (4, 2):
        for path_of_kernel in kernel_paths():
            rows = kernel_rows(*path_of_kernel, kv_heads, generator, scale)
            sheet.fill("kernels", ["path", "type", "largest difference"], rows)
    for make, name, keys in models(scale):
        head = ["model", "type", "path", "smallest cosine to fp32 on the CPU"]
        sheet.fill("models", head, model_rows(make, name, keys, scale))
    for make, name, _ in models(scale):
        head = ["model", "type", "alone against in a batch"]
        sheet.fill("batch invariance", head, invariance(make, name, scale))


def kernel_rows(
    name: str, run: Callable[..., Tensor], alone: Callable[..., Tensor], kv_heads: int,
    generator: torch.Generator, scale: Scale,
) -> Iterator[Row]:  # fmt: skip
    """One row for each number type."""
    lengths = list(scale.kernel_lengths)
    q, k, v = (torch.randn(sum(lengths), h, 64, generator=generator) for h in (4, kv_heads, kv_heads))
    # each document alone in fp32 on the CPU, so that packing itself is tested too
    want = alone(q, k, v, lengths)
    for dtype in ("float32", *scale.half_dtypes):
        given = [x.to(scale.device, getattr(torch, dtype)) for x in (q, k, v)]
        got = run(*given, lengths).float().cpu()
        yield [f"{name}, {4 // kv_heads} queries a key", dtype, float((got - want).abs().max())]


def models(scale: Scale) -> list[tuple[Callable[..., SentenceTransformer], str, tuple[str, ...]]]:
    """For each kind of model: the function that makes it, its name, and strategies for it."""
    return [
        (lambda n, folder: base_model(scale.size, n, folder), "absolute", ("none", "pcw", "pi", "ntk")),
        (lambda n, folder: rotary_model(scale.size, n, folder), "rotary", ("none", "ntk", "se", "dca")),
        (lambda n, folder: causal_model(scale, n, folder), "causal", ("none", "ntk", "se")),
    ]  # fmt: skip


def causal_model(scale: Scale, max_len: int, folder: str) -> SentenceTransformer:
    """A Qwen3 of the scale's shape with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4000, max_position_embeddings=max_len, pad_token_id=0, **scale.causal_shape
    )
    Qwen3Model(config).save_pretrained(folder)
    wordpiece(max_len).save_pretrained(folder)
    width = scale.causal_shape["hidden_size"]
    made = SentenceTransformer(modules=[Transformer(folder), Pooling(width, "lasttoken")], device="cpu")
    made.model_card_data.model_name = "benchmark/qwen3"
    return made


def checked_texts(scale: Scale) -> list[str]:
    """Documents around the trained length of 512 tokens, in no particular order."""
    longest = max(scale.kernel_lengths)
    MIXES["checked"] = tuple(int(n) for n in (90, 5 * longest, 2600, 400, 4 * longest, 30))
    return documents("checked", 6)


def model_rows(
    make: Callable[..., SentenceTransformer], name: str, keys: tuple[str, ...], scale: Scale
) -> Iterator[Row]:
    """One row for each strategy and type: our embeddings on the device compared with fp32 on the CPU."""
    target, texts = max(max(scale.kernel_lengths), 1024), checked_texts(scale)
    with tempfile.TemporaryDirectory() as folder:
        base = make(512, folder)
    for key in keys:
        target_len = 512 if key == "none" else target
        want = longembed.extend(base, key, target_len=target_len).encode(texts)
        for dtype in ("float32", *scale.half_dtypes):
            model = extended(base, key, target_len, dtype, scale.device)
            yield [f"{name}+{key}", dtype, form_of(model), cosine(model.encode(texts), want)]


@torch.inference_mode()
def form_of(model: Any) -> str:
    """A model's type, and whether its documents run packed or padded."""
    form = "packed" if model.first.packs_on(model.device) else "padded"
    return f"{str(model.first.model.dtype).removeprefix('torch.')}, {form} batches"


def extended(
    base: SentenceTransformer, key: str, target: int, dtype: str, device: str
) -> SentenceTransformer:
    """The extended base, in a number type, on a device."""
    model = longembed.extend(base, key, target_len=target)
    model[0].model.to(getattr(torch, dtype))
    return model.to(device)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The smallest cosine between rows with the same index."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(1) / norms).min())


def invariance(make: Callable[..., SentenceTransformer], name: str, scale: Scale) -> Iterator[Row]:
    """The largest difference between the unit vectors of documents alone and of the same documents in a batch."""
    texts = checked_texts(scale)
    with tempfile.TemporaryDirectory() as folder:
        base = make(512, folder)
    for dtype in ("float32", *scale.half_dtypes):
        model = extended(base, "none", 512, dtype, scale.device)
        together = model.encode(texts, normalize_embeddings=True)
        alone = np.stack([model.encode(text, normalize_embeddings=True) for text in texts])
        yield [name, dtype, float(np.abs(together - alone).max())]


# ---- speed ------------------------------------------------------------------------------------------------


def ends(scale: Scale, sheet: Sheet) -> None:
    """(a) Our engine compared with the best of sentence-transformers' settings."""
    head = [*speed.ENCODING, "stock used", "ours used"]
    for n in scale.lengths:
        for make, name, _ in models(scale):
            if name != "rotary":
                sheet.fill("encoding", head, end_rows(make, name, n, scale))


def end_rows(make: Callable[..., SentenceTransformer], name: str, n: int, scale: Scale) -> Iterator[Row]:
    """One row for each setting of sentence-transformers."""
    MIXES["full"] = (8 * n, 6 * n, 3 * n, 7 * n)
    texts = documents("full", max(scale.tokens_a_run // n, 4))
    with tempfile.TemporaryDirectory() as folder:
        base = make(n, folder)
        for dtype, attention, unpad in settings(scale):
            kwargs = {"dtype": getattr(torch, dtype), "attn_implementation": attention}
            stock = Transformer(folder, model_kwargs=kwargs)
            stock.unpad_inputs = unpad
            theirs = SentenceTransformer(modules=[stock, base[1]], device=scale.device)
            ours = extended(base, "none", n, dtype, scale.device)
            sizes = [size for size in scale.batch_sizes if size * n <= 2 * scale.tokens_a_run] or [1]
            row = speed.encoding_row(
                theirs, ours, texts, f"{name}, {dtype}", n, sizes, scale.rounds, our_batch=max(sizes)
            )
            padded = "padded" if unpad is False else "unpadded"
            used = stock.model.config._attn_implementation
            yield [*row, f"{used}, {padded}", form_of(ours)]


def settings(scale: Scale) -> list[tuple[str, str, bool | None]]:
    """The types, attention and unpadding with which sentence-transformers runs."""
    tried: list[tuple[str, str, bool | None]] = [(dtype, "sdpa", False) for dtype in scale.half_dtypes]
    try:
        metadata.version("flash_attn")
        tried += [(dtype, "flash_attention_2", None) for dtype in scale.half_dtypes]
    except metadata.PackageNotFoundError:
        pass
    return tried


def costs(scale: Scale, sheet: Sheet) -> None:
    """(b) The cost of strategies relative to their base."""
    for n in scale.strategy_lengths:
        for kind in speed.PLANS:
            rows = speed.strategy_rows(kind, scale.size, n, scale.rounds, scale.device, scale.half_dtypes[-1])
            sheet.fill("strategies", speed.STRATEGIES, rows)


def shares(scale: Scale, sheet: Sheet) -> None:
    """(c) Utilisation."""
    for n in scale.lengths:
        count = max(scale.tokens_a_run // n, 2)
        measure = (scale.size, n, count, scale.rounds, scale.device, scale.half_dtypes[-1])
        sheet.fill("utilisation", speed.UTILISATION, (speed.utilisation_row(*args) for args in [measure]))


def peaks(scale: Scale, sheet: Sheet) -> None:
    """(d) Memory by length."""
    for strategy in ("absolute:pi", "rotary:se", "rotary:dca"):
        sheet.fill("memory", speed.MEMORY, (peak_row(strategy, n, scale) for n in scale.memory_lengths))


def peak_row(strategy: str, n: int, scale: Scale) -> Row:
    """The peak of one document of `n` tokens."""
    dtype = scale.half_dtypes[-1] if scale.on_gpu else "float32"
    mib = speed.peak(scale.size, strategy, n, scale.device, dtype)
    return [strategy, n, mib, 1024 * mib / n]


# ---- the run ----------------------------------------------------------------------------------------------


def machine(scale: Scale) -> dict[str, Any]:
    """A description of the machine."""
    versions = {}
    for name in ("torch", "transformers", "sentence-transformers", "tokenizers", "flash_attn", "mteb"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    facts: dict[str, Any] = {"python": platform.python_version(), **versions, "device": scale.device}
    if scale.on_gpu:
        facts["device"] = torch.cuda.get_device_name(0)
        facts["memory, GiB"] = round(torch.cuda.mem_get_info(0)[1] / 2**30, 1)
    for dtype in ("float32", *scale.half_dtypes):
        why = devices.why_padded(torch.device(scale.device), getattr(torch, dtype))
        facts[f"batches in {dtype}"] = f"padded: {why}" if why else "packed"
    return facts


def written(report: dict[str, Any], folder: Path) -> None:
    """Write the report as JSON and as Markdown. Both files are complete at every moment."""
    lines = ["# Accelerator", ""]
    lines += [f"- {name}: {value}" for name, value in report["machine"].items()]
    for part, content in report["parts"].items():
        lines += ["", f"## {part}", ""]
        if "skipped" in content:
            lines += [content["skipped"]]
            continue
        lines += [note + "\n" for note in content["notes"]]
        for title, made in content["tables"].items():
            lines += [f"**{title}** ({content['seconds']:.0f} s)", "", table(made["head"], made["rows"]), ""]
    texts = {"accelerator.json": json.dumps(report, indent=1), "accelerator.md": "\n".join(lines) + "\n"}
    for name, text in texts.items():
        part_file = folder / f"{name}.part"
        part_file.write_text(text, encoding="utf-8")
        part_file.replace(folder / name)


def measure(
    name: str, run: Callable[[Sheet], None], end: float, report: dict[str, Any], folder: Path
) -> None:
    """Run a part; the report has its rows as soon as they are there."""
    begun = time.monotonic()
    content: dict[str, Any] = {"seconds": 0.0}

    def save() -> None:
        content["seconds"] = time.monotonic() - begun
        written(report, folder)

    sheet = Sheet(end, save)
    report["parts"][name] = content | {"tables": sheet.tables, "notes": sheet.notes}
    content = report["parts"][name]
    with contextlib.suppress(NoTimeError):
        run(sheet)
    save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="on the CPU, small, for tests")
    parser.add_argument("--only", nargs="+", help="names of parts; default: all")
    args = parser.parse_args()
    if not args.tiny and not torch.cuda.is_available():
        parser.error("there is no CUDA device here: use --tiny.")
    scale = Scale.tiny() if args.tiny else Scale("cuda", ("float16", "bfloat16"))
    # a test must not depend on how busy its machine is
    end = float("inf") if args.tiny else time.monotonic() + 60 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[Sheet], None]] = {
        "correctness": lambda sheet: correctness(scale, sheet),
        "end to end": lambda sheet: ends(scale, sheet),
        "strategies": lambda sheet: costs(scale, sheet),
        "utilisation": lambda sheet: shares(scale, sheet),
        "memory": lambda sheet: peaks(scale, sheet),
    }
    report: dict[str, Any] = {"machine": machine(scale), "sizes": SIZES[scale.size], "parts": {}}
    for name, run in parts.items():
        if args.only and name not in args.only:
            continue
        begun = time.monotonic()
        if begun > end:
            report["parts"][name] = {"skipped": "skipped: no time was left."}
        else:
            print(f"{name} ...", flush=True)
            measure(name, run, end, report, args.out)
        written(report, args.out)
    print((args.out / "accelerator.md").read_text(encoding="utf-8"))
    if any(
        ": failed after" in note for content in report["parts"].values() for note in content.get("notes", ())
    ):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
