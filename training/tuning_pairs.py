"""Training data for `mteb-longembed tune`: `python -m training.tuning_pairs RECIPE --data DIR --out FILE`.

The kinds and lengths are those of the recipe's last stage, as texts: anchor, positive, and where the kind has
one a hard negative (the twin with the roles exchanged). `tune` draws the other negatives.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm.auto import trange

from training.config import load_recipe
from training.corpus import open_corpus
from training.pairs import KINDS, PairMaker, draw


def write_pairs(
    maker: PairMaker, kinds: dict[str, float], count: int, longest: int, seed: int, out: Path
) -> None:
    """`count` rows with documents of 32 to `longest` tokens, in JSON lines."""
    rng = np.random.default_rng(seed)
    decode = maker.tokenizer.decode
    with out.open("w", encoding="utf-8") as lines:
        for _ in trange(count // 8, desc="pairs"):
            kind = str(draw(rng, kinds))
            length = int(2 ** rng.uniform(5, np.log2(longest))) - 2
            queries, documents = KINDS[kind](maker, rng, 8, length)
            for i, query in enumerate(queries):
                row = {"anchor": decode(query), "positive": decode(documents[i])}
                if kind == "twins":
                    row["negative_1"] = decode(documents[i ^ 1])
                elif kind == "shuffled":
                    row["negative_1"] = decode(documents[len(queries) + i])
                else:
                    row["negative_1"] = decode(documents[(i + 1) % len(queries)])
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="books.jsonl.gz, python-peps.jsonl.gz")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the pair")
    parser.add_argument("--out", type=Path, required=True, help="a file ending in .jsonl")
    parser.add_argument("--count", type=int, default=6400)
    parser.add_argument("--longest", type=int, default=192, help="tokens: the --max-len of the tuning run")
    args = parser.parse_args()
    recipe = load_recipe(args.recipe)
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    cache = args.tokenizer.with_name("corpus.pkl")
    maker = PairMaker(open_corpus(cache, args.data, tokenizer), tokenizer)
    kinds = recipe.stages[-1].kinds
    write_pairs(maker, kinds, args.count, args.longest, recipe.seed + 1, args.out)


if __name__ == "__main__":
    main()
