"""Training data for `mteb-longembed tune`: `python -m training.tuning_pairs --help`.

The pairs are the phrases and passages of the recipe, as texts. `tune` chooses the negatives and moves the documents to
random positions.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from training.inputs import add_inputs, open_inputs
from training.phrases import pair, shares_of


def write_pairs(
    chapters: list[np.ndarray], tokenizer: Tokenizer, count: int, length: int, seed: int, out: Path
) -> None:
    """Write `count` JSON lines with `anchor` and `positive`. Documents have `length` tokens with the special ones."""
    rng = np.random.default_rng(seed)
    shares = shares_of(chapters)
    with out.open("w", encoding="utf-8") as lines:
        for _ in range(count):
            query, document = pair(rng, chapters, shares, length - 2)
            # special tokens are kept, because the masks must stay in the text
            anchor, positive = (tokenizer.decode(ids, skip_special_tokens=False) for ids in (query, document))
            lines.write(json.dumps({"anchor": anchor, "positive": positive}, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_inputs(parser)
    parser.add_argument("--out", type=Path, required=True, help="a file ending in .jsonl")
    parser.add_argument("--count", type=int, default=6400)
    parser.add_argument("--length", type=int, default=192, help="tokens of a document")
    args = parser.parse_args()
    recipe, tokenizer, corpus = open_inputs(args)
    write_pairs(corpus.chapters, tokenizer, args.count, args.length, recipe.seed + 1, args.out)


if __name__ == "__main__":
    main()
