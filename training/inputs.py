"""What scripts beside the training read: the recipe, the pair's vocabulary, and the text as tokens."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from training.config import Recipe, load_recipe
from training.corpus import Corpus, open_corpus


class Inputs(NamedTuple):
    """A recipe, the vocabulary of the pair it makes, and the text in tokens of this vocabulary."""

    recipe: Recipe
    tokenizer: Tokenizer
    corpus: Corpus


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `open_inputs` reads."""
    parser.add_argument("recipe", type=Path)
    parser.add_argument(
        "--books", type=Path, required=True, help=".jsonl.gz, one chapter a line, field `text`"
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the pair")


def open_inputs(args: argparse.Namespace) -> Inputs:
    """Read them. The tokenised text is kept beside the vocabulary."""
    tokenizer = Tokenizer.from_file(str(args.tokenizer))
    corpus = open_corpus(args.tokenizer.with_name("corpus.npz"), args.books, tokenizer)
    return Inputs(load_recipe(args.recipe), tokenizer, corpus)
