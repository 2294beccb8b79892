"""Checks and times what runs on an accelerator: attention, whole models, memory.

    python experiments/accelerator.py > accelerator.jsonl
    python experiments/accelerator.py --tiny          # on a CPU, in a minute

It needs torch, transformers and this checkout alone: no sentence-transformers, mteb or datasets.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModel

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mteb_longembed.encoders.attention import Batch, running
from mteb_longembed.encoders.long_rotary import LongRotary
from mteb_longembed.encoders.positions import install_positions
from mteb_longembed.encoders.self_extend import attend, attend_band, self_extend, turns_of
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy

Row = dict[str, Any]
TRAINED = 512  # tokens
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FAMILIES = {
    "bert": ("none", "pi", "gp", "ntk"),
    "modernbert": ("none", "pi", "ntk", "se"),
    "qwen3": ("none", "pi", "yarn", "se"),
}
CELLS = [(kind, key) for kind, keys in FAMILIES.items() for key in keys]


def extended(
    kind: str, key: str, target: int, width: int, device: str, dtype: torch.dtype
) -> tuple[Any, Strategy]:
    """A model with random weights, which a strategy extends. Buffers stay in fp32, as transformers loads them."""
    torch.manual_seed(0)
    sizes = {"hidden_size": width, "num_hidden_layers": width // 64, "num_attention_heads": width // 32}
    sizes |= {"intermediate_size": 4 * width, "max_position_embeddings": TRAINED, "head_dim": 32}
    sizes |= {"num_key_value_heads": width // 64 if kind == "qwen3" else width // 32}
    sizes |= {"vocab_size": 1000, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}
    model = AutoModel.from_config(AutoConfig.for_model(kind, **sizes)).eval()
    strategy = STRATEGIES[key](trained_len=TRAINED, target_len=TRAINED if key == "none" else target)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    install_positions(model, strategy)
    return model.to(device), strategy


@torch.inference_mode()
def embed(model: Any, strategy: Strategy, documents: list[Tensor]) -> Tensor:
    """The mean of each document's last states, of a padded batch: `[b, d]`, in fp32 on the CPU."""
    device = model.device
    n = torch.tensor([len(document) for document in documents])
    ids = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True).to(device)
    mask = (torch.arange(ids.shape[1]) < n[:, None]).long().to(device)
    inv_freq = next((part.inv_freq for part in model.modules() if isinstance(part, LongRotary)), None)
    with running(Batch(strategy, n.tolist(), device, inv_freq)):
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    return ((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).cpu()


def documents(*lengths: int) -> list[Tensor]:
    """Documents of random tokens."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, 1000, (n,), generator=generator) for n in lengths]


def attention_rows(device: str, n: int) -> Iterator[Row]:
    """Each attention on the device, and in float64 on the CPU, where it runs without a kernel."""
    inv_freq = 10_000.0 ** -(torch.arange(32) / 32)

    def inside(q: Tensor, k: Tensor, v: Tensor, **kwargs: Any) -> Tensor:
        return self_extend(q, k, v, 64, turns_of(n, 9, 64, inv_freq, q.device), **kwargs)

    kinds: dict[str, Callable[..., Tensor]] = {
        "all keys": lambda q, k, v: attend(q, k, v, scale=0.125)[0],
        "causal": lambda q, k, v: attend(q, k, v, scale=0.125, causal=True)[0],
        "band": lambda q, k, v: attend_band(q, k, v, scale=0.125, left=127, right=127)[0],
        "se": lambda q, k, v: inside(q, k, v, scale=0.125, causal=False),
        "se, causal": lambda q, k, v: inside(q, k, v, scale=0.125, causal=True),
    }
    generator = torch.Generator().manual_seed(0)
    qkv = [torch.randn(2, heads, n, 64, generator=generator) for heads in (4, 2, 2)]
    for name, run in kinds.items():
        exact = run(*(x.double().requires_grad_() for x in qkv)).detach()
        for dtype in DTYPES:
            got = run(*(x.to(device, dtype) for x in qkv))
            gap = float((got.cpu().double() - exact).abs().max())
            yield {"part": "attention", "what": name, "dtype": str(dtype), "largest difference": gap}


def model_rows(device: str, target: int, width: int) -> Iterator[Row]:
    """Each document in a batch on the device, compared with the same document alone in fp32 on the CPU."""
    short, long = documents(300, 280, 40), documents(target, target - 7, target - 60)
    for kind, key in CELLS:
        batches = [short] if key == "none" else [short, long]
        plain = extended(kind, key, target, width, "cpu", torch.float32)
        exact = torch.cat([embed(*plain, [one]) for batch in batches for one in batch])
        for dtype in DTYPES:
            model, strategy = extended(kind, key, target, width, device, dtype)
            got = torch.cat([embed(model, strategy, batch) for batch in batches])
            cosine = float(torch.cosine_similarity(got, exact).min())
            yield {"part": "models", "what": f"{kind}+{key}", "dtype": str(dtype), "smallest cosine": cosine}


def time_rows(device: str, target: int, width: int) -> Iterator[Row]:
    """Tokens a second and peak memory of one document of the target length, the best of three."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    for kind, key in CELLS:
        model, strategy = extended(kind, key, target, width, device, dtype)
        batch = documents(TRAINED if key == "none" else target)
        seconds = []
        for _ in range(4):  # the first makes workspaces
            begun = time.perf_counter()
            embed(model, strategy, batch)
            seconds.append(time.perf_counter() - begun)
        row = {"part": "time", "what": f"{kind}+{key}", "dtype": str(dtype), "tokens": len(batch[0])}
        row["tokens a second"] = round(len(batch[0]) / min(seconds[1:]))
        if device == "cuda":
            row["peak MiB"] = torch.cuda.max_memory_allocated() >> 20
            torch.cuda.reset_peak_memory_stats()
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small sizes, on the CPU")
    args = parser.parse_args()
    accelerator = None if args.tiny else torch.accelerator.current_accelerator()
    device = accelerator.type if accelerator else "cpu"
    target, width = (1024, 64) if args.tiny else (8192, 768)
    versions = {"python": sys.version, "torch": torch.__version__, "transformers": transformers.__version__}
    of_models = model_rows(device, target, width), time_rows(device, target, width)
    for row in chain([{"device": device, **versions}], attention_rows(device, 700), *of_models):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
