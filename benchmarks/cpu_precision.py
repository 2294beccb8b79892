"""(h) Lower precision and compilation on a CPU: our engine, sentence-transformers and ONNX Runtime, one checkpoint.

`python benchmarks/cpu_precision.py --size base --tokens 512 4096 --docs 4 --rounds 3`

All ways run in one process, in turns, on the same documents with exactly `--tokens` tokens, and give the same vectors
(mean of the token embeddings). The roofline is the rate of plain matrix products with the model's shapes in each
number type: no way to encode is faster than its matrix products. Rows that need torchao, onnx or onnxruntime say so
if these are not installed.
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from materials import MIXES, SIZES, alternating, base_model, documents, table
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed

Run = Callable[[], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--docs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="parts of the names of ways; default all")
    parser.add_argument("--no-roofline", action="store_true", help="leave the matrix products out")
    args = parser.parse_args()
    print(f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads\n", flush=True)
    if not args.no_roofline:
        print(roofline(args.size, args.rounds), "\n", flush=True)
    for n in args.tokens:
        print(encoding(args.size, n, args.docs, args.rounds, args.only), "\n", flush=True)


# ---- the roofline -----------------------------------------------------------------------------------------


def roofline(size: str, rounds: int) -> str:
    """GFLOP/s of products `[2048, width] x [width, 4 width]`, the largest of a layer, by number type.

    Types for which the processor has no instructions are slow by a factor of ten or more: fewer rows show that.
    """
    _, width, _ = SIZES[size]
    a, b = torch.randn(2048, width), torch.randn(4 * width, width)
    half_a, half_b = a[:64].bfloat16(), b.bfloat16()
    whole = [(x * 20).clamp(-127, 127).to(torch.int8) for x in (a[:64], b)]
    products: dict[str, tuple[int, Callable[[], object]]] = {
        "float32": (2048, lambda: torch.mm(a, b.T)),
        "int8 (quantised linear, fbgemm)": (2048, quantized_product(b, a, "fbgemm")),
        "int8 (quantised linear, onednn)": (2048, quantized_product(b, a, "onednn")),
        "bfloat16, 64 rows": (64, lambda: torch.mm(half_a, half_b.T)),
        "int8 (torch._int_mm), 64 rows": (64, lambda: torch._int_mm(whole[0], whole[1].T)),
    }
    done: dict[str, tuple[int, Callable[[], object]]] = {}
    rows: list[list[object]] = []
    for name, (count, run) in products.items():
        try:
            run()
            done[name] = count, run
        except (RuntimeError, AttributeError) as error:
            rows.append([name, f"cannot: {str(error).splitlines()[0][:60]}"])
    seconds = alternating(rounds, *(run for _, run in done.values()))
    rates = [
        2 * done[name][0] * width * 4 * width / took / 1e9 for name, took in zip(done, seconds, strict=True)
    ]
    rows = [[name, rate, rate / rates[0]] for name, rate in zip(done, rates, strict=True)] + rows
    return table(
        ["matrix product", "GFLOP/s", "relative to float32"], [row + [""] * (3 - len(row)) for row in rows]
    )


def quantized_product(weight: torch.Tensor, x: torch.Tensor, backend: str) -> Callable[[], object]:
    """torch's own int8 linear layer with activations quantised on the way."""
    made: list[torch.Tensor] = []

    def run() -> object:
        torch.backends.quantized.engine = backend
        if not made:
            made.append(packed(weight, None))
        return torch.ops.quantized.linear_dynamic(x, made[0], reduce_range=True)

    return run


def packed(weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """A weight in int8, one scale an output, in the layout of the backend."""
    scales = weight.abs().amax(1).clamp(min=1e-9).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.long)
    whole = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(whole, bias)


# ---- ways to encode ---------------------------------------------------------------------------------------


def encoding(size: str, n: int, docs: int, rounds: int, only: list[str] | None) -> str:
    """One table: seconds and cosines of every way, for documents of `n` tokens."""
    MIXES["full"] = (8 * n,)
    texts = documents("full", docs)
    with tempfile.TemporaryDirectory() as folder:
        stock = base_model(size, n, folder)
        batch = max(4096 // n, 1)
        want = stock.encode(texts, batch_size=batch)
        ways: dict[str, Callable[[], Run]] = {
            "sentence-transformers, fp32": lambda: lambda: stock.encode(texts, batch_size=batch),
            "ours, fp32": lambda: engine_run(longembed.extend(stock, "none"), texts),
            "ours, dtype=int8": lambda: engine_run(longembed.load(f"{folder}+none:dtype=int8"), texts),
            "ours, bf16": lambda: engine_run(in_bf16(stock), texts),
            "ours, int8 (torchao, dynamic)": lambda: engine_run(in_int8(stock, "dynamic"), texts),
            "ours, int8 (torchao, weights)": lambda: engine_run(in_int8(stock, "weights"), texts),
            "ours, int8 (fbgemm)": lambda: engine_run(in_torch_int8(stock, "fbgemm"), texts),
            "ours, int8 (onednn)": lambda: engine_run(in_torch_int8(stock, "onednn"), texts),
            "ours, compiled": lambda: engine_run(compiled(longembed.extend(stock, "none")), texts),
            "ours, int8 (torchao, dynamic), compiled": lambda: engine_run(compiled(in_int8(stock, "dynamic")), texts),
            "ONNX Runtime, fp32": lambda: onnx_run(stock, texts, folder, n, quantised=False),
            "ONNX Runtime, int8": lambda: onnx_run(stock, texts, folder, n, quantised=True),
        }  # fmt: skip
        runs: dict[str, Run] = {}
        rows: list[list[object]] = []
        first: dict[str, float] = {}
        vectors: dict[str, np.ndarray] = {}
        for name, make in ways.items():
            if only and not any(part in name for part in only) and not name.startswith("sentence"):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    run = make()
                    start = time.perf_counter()
                    vectors[name] = run()
                    first[name] = time.perf_counter() - start
                runs[name] = run
            except Exception as error:  # one way that cannot run must not hide the others
                rows.append([name, n, f"cannot: {type(error).__name__}: {str(error).splitlines()[0][:70]}"])
        seconds = alternating(rounds, *runs.values())
        for name, took in zip(runs, seconds, strict=True):
            got = vectors[name]
            cosines = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
            rows.append([name, n, took, seconds[0] / took, first[name], f"{1 - float(cosines.min()):.1e}"])
    head = ["way", "tokens", "s", "sentence-transformers / this", "first call s", "1 - cosine to fp32"]
    return table(head, [row + [""] * (len(head) - len(row)) for row in rows])


def engine_run(model: SentenceTransformer, texts: list[str]) -> Run:
    return lambda: model.encode(texts)


def in_bf16(stock: SentenceTransformer) -> SentenceTransformer:
    half = copy.deepcopy(stock)
    half[0].model.bfloat16()
    return longembed.extend(half, "none")


def in_int8(stock: SentenceTransformer, kind: str) -> SentenceTransformer:
    """The linear layers in int8 by torchao."""
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

    model = longembed.extend(stock, "none")
    config = Int8DynamicActivationInt8WeightConfig() if kind == "dynamic" else Int8WeightOnlyConfig()
    quantize_(model[0].model, config)
    return model


class QuantisedLinear(torch.nn.Module):
    """A linear layer in int8, activations quantised on the way, by torch's own kernels."""

    def __init__(self, linear: torch.nn.Linear, backend: str) -> None:
        super().__init__()
        self.backend = torch.backends.quantized.engine = backend
        self.packed = packed(linear.weight.detach(), linear.bias)
        self.weight = linear.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.backends.quantized.engine = self.backend
        return torch.ops.quantized.linear_dynamic(x, self.packed, reduce_range=True)


def in_torch_int8(stock: SentenceTransformer, backend: str) -> SentenceTransformer:
    """The linear layers in int8 by torch's own kernels."""
    model = longembed.extend(stock, "none")
    for module in list(model[0].model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, QuantisedLinear(child, backend))
    return model


def compiled(model: SentenceTransformer) -> SentenceTransformer:
    model[0].model.compile(dynamic=True)
    return model


def onnx_run(stock: SentenceTransformer, texts: list[str], folder: str, n: int, *, quantised: bool) -> Run:
    """The transformer in ONNX Runtime with the same number of threads. numpy computes the mean of the tokens."""
    import onnxruntime

    path = Path(folder, "model.onnx")
    if not path.is_file():
        inner = copy.deepcopy(stock[0].model).eval()
        ids = torch.randint(5, 100, (2, min(n, 64)))
        torch.onnx.export(
            _Plain(inner),
            (ids, torch.ones_like(ids)),
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["tokens"],
            dynamic_axes={name: {0: "b", 1: "n"} for name in ("input_ids", "attention_mask", "tokens")},
            opset_version=17,
            dynamo=False,
        )
    if quantised:
        from onnxruntime.quantization import quantize_dynamic

        small = path.with_name("int8.onnx")
        quantize_dynamic(path, small, per_channel=True, reduce_range=True)
        path = small
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    if os.environ.get("BENCHMARK_CLOCK") == "cpu":
        # threads that spin while they wait would count as work
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    batch = max(4096 // n, 1)

    def run() -> np.ndarray:
        found = []
        for start in range(0, len(texts), batch):
            read = stock.tokenizer(
                texts[start : start + batch], padding=True, truncation=True, max_length=n, return_tensors="np"
            )
            mask = read["attention_mask"]
            (tokens,) = session.run(None, {"input_ids": read["input_ids"], "attention_mask": mask})
            found.append((tokens * mask[..., None]).sum(1) / mask.sum(1, keepdims=True))
        return np.concatenate(found)

    return run


class _Plain(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


if __name__ == "__main__":
    main()
