"""Do the scores of a comparison move in bf16? Also on processors that have no bf16, in the time of fp32.

    python -m experiments.imitated_bf16 MODEL COLLECTION OUT

Products of matrices are computed in fp32 from bf16 numbers, and their results are rounded to bf16, as processors with
bf16 do. COLLECTION is a folder of `measured_collections`. OUT/scores.csv has the table of the comparison.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import mteb_longembed as longembed

_PRODUCTS = {
    "linear",
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
}


class ProductsInFP32(TorchDispatchMode):
    """Computes products of bf16 matrices in fp32, and rounds their results."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation."""
        kwargs = kwargs or {}
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        is_product = func.overloadpacket.__name__ in _PRODUCTS
        if not is_product or not any(tensor.dtype == torch.bfloat16 for tensor in given):
            return func(*args, **kwargs)
        done = func(
            *_cast(args, torch.bfloat16, torch.float32), **_cast(kwargs, torch.bfloat16, torch.float32)
        )
        return _cast(done, torch.float32, torch.bfloat16)


def _cast(values: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """Values in which tensors of one type have another."""

    def cast(value: Any) -> Any:
        return value.to(new) if isinstance(value, torch.Tensor) and value.dtype == old else value

    return tree_map(cast, values)


def main() -> None:
    """Compare in bf16."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("collection", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    with ProductsInFP32():
        result = longembed.compare(
            args.model,
            corpus=args.collection / "corpus.jsonl",
            queries=args.collection / "queries.jsonl",
            qrels=args.collection / "qrels.jsonl",
            strategies=["pcw"],
            dtype="bf16",
            folder=args.out,
        )
    result.to_dataframe().to_csv(args.out / "scores.csv")


if __name__ == "__main__":
    main()
