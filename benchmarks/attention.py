"""SelfExtend in three passes, compared with plain attention and with its dense form: time and peak memory.

    python benchmarks/attention.py [--device cpu] [--lengths 4096 8192 16384 32768] [--heads 12] [--width 64]

All forms run in one process, in turns, so that the load of the machine is the same for all. A ratio is the ratio of two
medians. Peak memory is the memory that a form adds while it runs: on the CPU the largest resident set of a process that
runs only this form, on a GPU the allocator's peak.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mteb_longembed.encoders.attention.plan import PlannedAttention, SelfExtendPlan
from mteb_longembed.encoders.attention.rotation import Rotation
from mteb_longembed.encoders.strategies.se import SelfExtend

TRAINED = 512
#: The dense form stores n x n scores for all heads: 51 GiB at 32,768 tokens and 12 heads.
DENSE_UP_TO = 4096


def plain(q: Tensor, k: Tensor, v: Tensor, plan: SelfExtendPlan, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=k.shape[1] != q.shape[1])


def dense(q: Tensor, k: Tensor, v: Tensor, plan: SelfExtendPlan, causal: bool) -> Tensor:
    """Two full score matrices, near and far. The distance decides which score is used, as in the authors' code."""
    n = q.shape[2]
    rotation = rotation_of(q)
    group, window = plan.sizes(n)
    grouped = torch.arange(n, device=q.device) // group
    shifted = grouped + window - window // group
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)

    def far(query_at: Tensor, key_at: Tensor) -> Tensor:
        return rotation.apply(q, rotation.turn(query_at)) @ rotation.apply(k, rotation.turn(key_at)).mT

    behind = torch.arange(n, device=q.device)[:, None] - torch.arange(n, device=q.device)
    scores = q @ k.mT
    scores = torch.where(behind >= window, far(shifted, grouped), scores)
    if causal:
        scores.masked_fill_(behind < 0, -torch.inf)
    else:
        scores = torch.where(behind <= -window, far(grouped, shifted), scores)
    return scores.mul_(q.shape[-1] ** -0.5).softmax(-1) @ v


def three_pass(q: Tensor, k: Tensor, v: Tensor, plan: SelfExtendPlan, causal: bool) -> Tensor:
    planned = _PLANNED.setdefault((plan, q.shape[-1]), PlannedAttention(plan, rotation_of(q)))
    return planned(q, k, v, scale=q.shape[-1] ** -0.5, causal=causal)


#: All layers of a model share the tables of angles, so they are shared here too.
_PLANNED: dict[object, PlannedAttention] = {}
FORMS: dict[str, Callable[..., Tensor]] = {"plain": plain, "three-pass": three_pass, "dense": dense}


def rotation_of(q: Tensor) -> Rotation:
    return Rotation(10_000.0 ** -(torch.arange(0, q.shape[-1], 2) / q.shape[-1]))


def inputs(n: int, args: argparse.Namespace) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, args.dtype)
    shapes = [(1, heads, n, args.width) for heads in (args.heads, args.kv_heads, args.kv_heads)]
    q, k, v = (torch.randn(shape, generator=generator).to(args.device, dtype) for shape in shapes)
    return q, k, v


@functools.cache
def plan_for(n: int) -> SelfExtendPlan:
    return SelfExtend(trained_len=TRAINED, target_len=n).attention()


def seconds(form: Callable[..., Tensor], n: int, args: argparse.Namespace, data: tuple[Tensor, ...]) -> float:
    start = time.perf_counter()
    form(*data, plan_for(n), args.causal)
    if args.device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def added_memory(name: str, n: int, args: argparse.Namespace) -> float:
    """How many MiB one form needs in addition to its inputs."""
    if args.device != "cpu":
        data = inputs(n, args)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        FORMS[name](*data, plan_for(n), args.causal)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_resident, (name, n, args))


def _resident(name: str, n: int, args: argparse.Namespace) -> float:
    torch.set_num_threads(args.threads or torch.get_num_threads())
    with torch.no_grad():
        FORMS[name](*inputs(256, args), plan_for(1024), args.causal)
        data = inputs(n, args)
        before = _peak(reset=True)
        FORMS[name](*data, plan_for(n), args.causal)
    return _peak() - before


def _peak(reset: bool = False) -> float:
    """Largest resident set of this process in MiB. On Linux, since the last reset."""
    status = Path("/proc/self/status")
    if not status.is_file():
        # in KiB, on macOS in bytes; on macOS a child starts with its parent's peak, so small forms may show 0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**20 if sys.platform == "darwin" else 2**10
        )
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 8192, 16384, 32768])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--kv-heads", type=int, help="default: as many as heads")
    parser.add_argument("--width", type=int, default=64, help="dimensions of a head")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="CPU threads; default: torch's own number")
    args = parser.parse_args()
    args.kv_heads = args.kv_heads or args.heads
    if args.threads:
        torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.device}, {torch.get_num_threads()} threads, {args.dtype}, "
          f"{args.heads}/{args.kv_heads} heads of {args.width}, "
          f"{'causal' if args.causal else 'bidirectional'}, "
          f"median of {args.rounds}")  # fmt: skip
    print(f"{'tokens':>7} {'form':>11} {'seconds':>9} {'x plain':>8} {'added MiB':>10}")
    with torch.no_grad():
        for n in args.lengths:
            data = inputs(n, args)
            names = [name for name in FORMS if name != "dense" or n <= DENSE_UP_TO]
            times: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(args.rounds + 1):
                for name in names:
                    took = seconds(FORMS[name], n, args, data)
                    if turn:  # the first round warms up
                        times[name].append(took)
            del data
            median = {name: statistics.median(values) for name, values in times.items()}
            for name in names:
                memory = added_memory(name, n, args)
                ratio = median[name] / median["plain"]
                print(f"{n:7} {name:>11} {median[name]:9.3f} {ratio:8.2f} {memory:10.0f}", flush=True)


if __name__ == "__main__":
    main()
