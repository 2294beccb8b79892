"""Speed and memory of the engine: `python -m experiments.speed PART ...`; experiments/speed.md has the numbers.

- `encoding`: our engine compared with sentence-transformers' own loop at its best batch size, on LongEmbed's lengths.
- `precision`: the same on documents of full length, for the number types of `:dtype=`.
- `tokenising`: the ids of the first tokens of long documents.
- `processor`: real models (`--models FOLDER ...`) in stock modules, in ours and in OpenVINO, on one thread, without
  tokenising. `pip install openvino` first, in an environment of its own.
- `strategies`: a forward pass of each strategy, compared with the base's own at the same number of tokens.
- `utilisation`: FLOP/s of encoding divided by FLOP/s of matrix products of the same shapes.
- `memory`: the peak of one document's forward pass, each in its own process.
- `mteb`: wall time of an evaluation minus the time inside `encode`.
- `indexing`: `Searcher.add` compared with `encode` on the same documents.
- `search`: queries against random unit vectors, because the cost does not depend on their values.
"""

import argparse
import math
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from experiments.materials import MIXES, SIZES, base_model, documents, rotary_model, tokenizer
from experiments.measuring import interleaved, table
from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import DTYPES, ModelSpec
from mteb_longembed.encoders.compute_type import LEAST_GAIN_OF_PRODUCTS
from mteb_longembed.encoders.engine.speed import product_rate
from mteb_longembed.encoders.features import BOUNDS, Features
from mteb_longembed.encoders.text.prefix_tokenizer import RECENT, PrefixTokenizer, RecentIds
from mteb_longembed.encoders.trunk import LongTransformer

Row = list[object]
BATCH_SIZES = (1, 4, 8, 32)

ENCODING = [
    "documents", "tokens", "number", "stock s", "its batch", "ours s", "stock / ours", "largest difference",
]  # fmt: skip


def encoding_row(
    stock: SentenceTransformer, ours: SentenceTransformer, texts: list[str], name: str, n: int,
    batch_sizes: Sequence[int], rounds: int, our_batch: int = 32,
) -> Row:  # fmt: skip
    """The stock loop with its best batch size, compared with ours. Our cache of ids is not used."""

    def run_ours() -> np.ndarray:
        RECENT.most = 0
        return ours.encode(texts, batch_size=our_batch)

    difference = float(np.abs(run_ours() - stock.encode(texts, batch_size=batch_sizes[0])).max())
    runs = [lambda size=size: stock.encode(texts, batch_size=size) for size in batch_sizes]
    *stock_times, our_time = interleaved(rounds, *runs, run_ours)
    best = min(range(len(runs)), key=stock_times.__getitem__)
    stock_time = stock_times[best]
    return [name, n, len(texts), stock_time, batch_sizes[best], our_time, stock_time / our_time, difference]


def encoding(args: argparse.Namespace) -> Iterator[Row]:
    for n in args.tokens:
        with tempfile.TemporaryDirectory() as folder:
            stock = base_model(args.size, n, folder)
            ours = longembed.extend(stock, "none")
            for mix in ("qmsum", "narrativeqa", "2wiki", "passkey", "queries"):
                texts = documents(mix, args.docs * (16 if mix == "queries" else 1))
                yield encoding_row(stock, ours, texts, mix, n, BATCH_SIZES, args.rounds)


def precision(args: argparse.Namespace) -> Iterator[Row]:
    for n in args.tokens:
        MIXES["full"] = (8 * n,)
        with tempfile.TemporaryDirectory() as folder:
            stock = base_model(args.size, n, folder)
            for dtype in ("fp32", "bf16"):
                ours = longembed.load(f"{folder}+none" + ("" if dtype == "fp32" else f":dtype={dtype}"))
                yield encoding_row(
                    stock, ours, documents("full", args.docs), dtype, n, BATCH_SIZES, args.rounds
                )


def tokenising(args: argparse.Namespace) -> Iterator[Row]:
    MIXES["words"] = (285_000,)  # 50,000 words
    texts = documents("words", args.docs)
    for n in args.tokens:
        stock = tokenizer(n)
        cut = PrefixTokenizer(stock, RecentIds(0))
        assert [ids.tolist() for ids in cut(texts, n)] == stock(texts, truncation=True)["input_ids"], (
            "ids differ"
        )
        seconds = interleaved(args.rounds, lambda: stock(texts, truncation=True), lambda: cut(texts, n))  # noqa: B023
        theirs, ours = (1e3 * s / len(texts) for s in seconds)
        yield [n, theirs, ours, theirs / ours]


PLANS = {
    "absolute": ("pcw", "gp", "rp", "pi", "ntk"),
    "rotary": ("pcw", "gp", "rp", "pi", "ntk", "se"),
}
MAKERS: dict[str, Callable[..., SentenceTransformer]] = {"absolute": base_model, "rotary": rotary_model}
STRATEGIES = ["positions", "strategy", "tokens", "base s", "strategy s", "strategy / base"]


def strategy_rows(
    family: str, size: str, n: int, rounds: int, device: str = "cpu", dtype: str = "float32"
) -> Iterator[Row]:
    """One row for each strategy: one document of `n` tokens, in the extended model and in the base itself."""
    with tempfile.TemporaryDirectory() as folder:
        wide, trained = (MAKERS[family](size, length, f"{folder}/{length}") for length in (n, 512))
        for base in (wide, trained):
            base[0].model.to(getattr(torch, dtype))
        baseline = forward(longembed.extend(wide, "none", device=device), n)
        for key in PLANS[family]:
            extended = longembed.extend(trained, key, target_len=n, device=device)
            base_s, strategy_s = interleaved(rounds, baseline, forward(extended, n))
            yield [family, key, n, base_s, strategy_s, strategy_s / base_s]


def forward(model: SentenceTransformer, n: int, n_texts: int = 1) -> Callable[[], object]:
    """A function that runs texts of `n` tokens through the model. A first pass is made here."""
    ids = torch.randint(5, 4000, (n_texts, n))
    ids[:, 0], ids[:, -1] = 2, 3
    features: Features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    features = {key: value.to(model.device) for key, value in features.items()}
    features["modality"] = "text"
    trunk = model[0]
    if isinstance(trunk, LongTransformer):
        features[BOUNDS] = trunk.bounds_of(list(ids.int().numpy()))

    def run() -> object:
        with torch.inference_mode():
            return model(dict(features))

    run()
    return run


PROCESSOR = ["model", "what is read", "way", "s", "stock in fp32 / it"]


def readings(trained: int, n: int) -> list[tuple[str, str, tuple[int, int], tuple[int, int]]]:
    """What is read, how our name ends, and the ids `[texts, tokens]` that ours and the others get."""
    windows = math.ceil((n - 2) / (trained - 2))  # each has two special tokens
    return [
        ("4 texts of 512 tokens", "+none@512:trained_len=512", (4, 512), (4, 512)),
        (f"{n:,} tokens in windows of {trained}", f"+pcw@{n}", (1, n), (windows, trained)),
        (f"{n:,} tokens at once (ntk)", f"+ntk@{n}", (1, n), (1, n)),
    ]


def processor(args: argparse.Namespace) -> Iterator[Row]:
    """The stock form of `ntk` is the exported folder. bf16 is left out where its plain products gain nothing."""
    torch.set_num_threads(1)
    bf16, fp32 = (product_rate(768, dtype) for dtype in (torch.bfloat16, torch.float32))
    print(f"products of width 768: bf16 has {bf16 / fp32:.2g} of the speed of fp32")
    dtypes = ["fp32", "bf16"] if bf16 >= LEAST_GAIN_OF_PRODUCTS * fp32 else ["fp32"]
    for folder in args.models:
        trained = open_checkpoint(ModelSpec.parse(f"{folder}+none")).strategy.trained_len
        for what, tail, shape, stock_shape in readings(trained, max(args.tokens)):
            runs: dict[str, Callable[[], object]] = {}
            with tempfile.TemporaryDirectory() as exported:
                path = folder
                if tail.startswith("+ntk"):
                    longembed.export(f"{folder}{tail}", exported)
                    path = exported
                for dtype in dtypes:
                    stock = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": DTYPES[dtype]})
                    ours = longembed.load(
                        f"{folder}{tail}", device="cpu", model_kwargs={"dtype": DTYPES[dtype]}
                    )
                    runs[f"stock, {dtype}"] = forward(stock, stock_shape[1], stock_shape[0])
                    runs[f"ours, {dtype}"] = forward(ours, shape[1], shape[0])
                stock = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": "float32"})
                runs |= openvino_runs(stock[0].model, stock_shape)
            seconds = interleaved(args.rounds, *runs.values())
            for way, own in zip(runs, seconds, strict=True):
                yield [Path(folder).name, what, way, own, seconds[0] / own]


def openvino_runs(model: torch.nn.Module, shape: tuple[int, int]) -> dict[str, Callable[[], object]]:
    """A transformer in OpenVINO, in fp32 and in the shorter types that it says the processor has."""
    import openvino

    ids = torch.randint(5, 4000, shape)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    converted = openvino.convert_model(
        model, example_input={key: value[:, :64] for key, value in inputs.items()}
    )
    core = openvino.Core()
    found = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    print(f"OpenVINO finds {', '.join(found)}")
    with torch.inference_mode():
        wanted = model(**inputs).last_hidden_state
    runs: dict[str, Callable[[], object]] = {}
    for precision in ("f32", *({"BF16": "bf16", "FP16": "f16"}.get(name) for name in found)):
        if precision is None:
            continue
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": precision,
        }
        compiled = core.compile_model(converted, "CPU", settings)
        difference = np.abs(compiled(inputs)[0] - wanted.numpy()).max()
        print(f"OpenVINO in {precision}: largest difference of a token's numbers {difference:.1g}")
        runs[f"OpenVINO, {precision}"] = partial(compiled, inputs)
    return runs


def strategies(args: argparse.Namespace) -> Iterator[Row]:
    for n in args.tokens:
        for family in PLANS:
            yield from strategy_rows(family, args.size, n, args.rounds)


UTILISATION = ["tokens", "documents", "encoding GFLOP/s", "matrix product GFLOP/s", "share"]


def utilisation_row(
    size: str, n: int, docs: int, rounds: int, device: str = "cpu", dtype: str = "float32"
) -> Row:
    """The rate of encoding `docs` documents of `n` tokens, and of plain products with as many operations."""
    layers, width, _ = SIZES[size]
    MIXES["full"] = (8 * n,)
    texts = documents("full", docs)
    with tempfile.TemporaryDirectory() as folder:
        base = base_model(size, n, folder, device)
        base[0].model.to(getattr(torch, dtype))
        model = longembed.extend(base, "none", device=device)
    flops = docs * n * layers * (24 * width**2 + 4 * n * width)
    a = torch.randn(n * 7, width, device=device, dtype=getattr(torch, dtype))
    b = torch.randn(width, 4 * width, device=device, dtype=getattr(torch, dtype))
    repeats = max(1, int(flops / (2 * a.shape[0] * b.numel())))

    def product() -> None:
        for _ in range(repeats):
            torch.mm(a, b)

    model.encode(texts[:1])
    encode_s, product_s = interleaved(rounds, lambda: model.encode(texts, batch_size=docs), product)
    achieved, possible = flops / encode_s, repeats * 2 * a.shape[0] * b.numel() / product_s
    return [n, docs, achieved / 1e9, possible / 1e9, achieved / possible]


def utilisation(args: argparse.Namespace) -> Iterator[Row]:
    return (utilisation_row(args.size, n, args.docs, args.rounds) for n in args.tokens)


MEMORY = ["strategy", "tokens", "peak MiB above start", "KiB a token"]


def resident() -> float:
    """The largest resident set of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak(size: str, strategy: str, n: int, device: str = "cpu", dtype: str = "float32") -> float:
    """By how many MiB the largest resident set, or a GPU's allocation, grows while one document is encoded."""
    family, key = strategy.split(":")
    with tempfile.TemporaryDirectory() as folder:
        model = longembed.extend(MAKERS[family](size, 512, folder), key, target_len=n)
        model[0].model.to(getattr(torch, dtype))
        model.to(device)
        forward(model, 512)
        if device == "cpu":
            start = resident()
            forward(model, n)
            return resident() - start
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        forward(model, n)
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - allocated) / 2**20


def memory(args: argparse.Namespace) -> Iterator[Row]:
    for strategy in ("absolute:pi", "absolute:pcw", "rotary:ntk", "rotary:se"):
        for n in args.tokens:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                mib = pool.submit(peak, args.size, strategy, n).result()
            yield [strategy, n, mib, 1024 * mib / n]


def mteb_overhead(args: argparse.Namespace) -> Iterator[Row]:
    """60 documents with QMSum's lengths and 450 queries; the scores have no meaning."""
    import mteb

    from mteb_longembed.retrieval.encoder import LongEncoder
    from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey

    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    task.load_data()
    split = task.dataset["default"]["test_256"]
    lengths = {"corpus": documents("qmsum", 60), "queries": documents("queries", 450, seed=1)}
    for name, texts in lengths.items():
        rows = [{"id": f"{name}{i}", "text": text, "title": ""} for i, text in enumerate(texts)]
        split[name] = type(split[name]).from_list(rows)
    split["relevant_docs"] = {f"queries{i}": {f"corpus{i % 60}": 1} for i in range(450)}
    with tempfile.TemporaryDirectory() as folder:
        encoder = LongEncoder(longembed.extend(base_model(args.size, 512, folder), "none"))
        encoder.model.store = None
        inside: list[float] = []
        original = encoder.model.encode

        def timed(*given: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*given, **kwargs)
            finally:
                inside.append(time.perf_counter() - start)

        encoder.model.encode = timed  # type: ignore[method-assign]
        start = time.perf_counter()
        mteb.evaluate(encoder, [task], cache=mteb.ResultCache(folder), show_progress_bar=False)
        wall = time.perf_counter() - start
    yield [args.size, wall, sum(inside), wall - sum(inside), f"{100 * (1 - sum(inside) / wall):.1f} %"]


def indexing(args: argparse.Namespace) -> Iterator[Row]:
    """Ids are not kept between rounds."""
    # this needs mteb, and the kit for accelerators, which uses this file, runs without it
    from mteb_longembed.retrieval.searcher import Searcher

    texts = documents("qmsum", args.docs)
    keys = list(map(str, range(len(texts))))
    tails = ["none", "pcw:size=128,vectors=window"]
    with tempfile.TemporaryDirectory() as folder:
        base_model(args.size, 512, folder)
        searchers = [longembed.search(f"{folder}+{tail}") for tail in tails]

        def encode(searcher: Searcher) -> None:
            RECENT.most = 0
            searcher.scorer.encoded.model.encode_document(texts)

        def add(searcher: Searcher) -> None:
            RECENT.most = 0
            Searcher(searcher.scorer).add(keys, texts)

        for searcher in searchers:
            searcher.scorer.encoded.model.store = None
            encode(searcher)
        runs = [lambda s=s, way=way: way(s) for s in searchers for way in (encode, add)]
        seconds = interleaved(args.rounds, *runs)
    for tail, ours, theirs in zip(tails, seconds[1::2], seconds[::2], strict=True):
        yield [tail, theirs, ours, ours / theirs]


def search(args: argparse.Namespace) -> Iterator[Row]:
    """50 queries against 10,000 documents of width 128, with one and with 64 vectors each."""
    from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores

    draw = np.random.default_rng(0)
    queries = draw.normal(size=(50, 128)).astype(np.float32)
    for count in (1, 64):
        vectors = CorpusVectors()
        for _ in range(10_000):
            drawn = draw.normal(size=(count, 128)).astype(np.float32)
            vectors.append([drawn / np.linalg.norm(drawn, axis=1, keepdims=True)])
        (seconds,) = interleaved(args.rounds, lambda vectors=vectors: document_scores(vectors, queries))
        yield [f"exact, {count} a document", seconds]


PARTS: dict[str, tuple[list[str], Callable[[argparse.Namespace], Iterable[Row]]]] = {
    "encoding": (ENCODING, encoding),
    "precision": (ENCODING, precision),
    "tokenising": (["tokens kept", "stock ms", "ours ms", "stock / ours"], tokenising),
    "processor": (PROCESSOR, processor),
    "strategies": (STRATEGIES, strategies),
    "utilisation": (UTILISATION, utilisation),
    "memory": (MEMORY, memory),
    "mteb": (["model", "wall s", "encode s", "rest s", "share"], mteb_overhead),
    "indexing": (["name", "encode s", "add s", "add / encode"], indexing),
    "search": (["search", "s"], search),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--docs", type=int, default=8, help="documents; 16 times as many queries")
    parser.add_argument("--models", nargs="+", default=[], help="folders, for `processor`")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for part in args.parts:
        head, rows = PARTS[part]
        print(f"{part}\n\n{table(head, list(rows(args)))}\n", flush=True)


if __name__ == "__main__":
    main()
