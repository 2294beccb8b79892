"""Export a pair from its checkpoints: `python -m training.finish RECIPE --run DIR --out DIR`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.config import load_recipe
from training.export import export
from training.models import BUILDERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--run", type=Path, required=True, help="the --out of training.train")
    parser.add_argument("--out", type=Path, required=True, help="folder for NAME-ape and NAME-rope")
    args = parser.parse_args()
    recipe = load_recipe(args.recipe)
    tokenizer = Tokenizer.from_file(str(args.run / "tokenizer.json"))
    for positions, build in BUILDERS.items():
        saved = torch.load(args.run / f"{positions}.pt", weights_only=True, map_location="cpu")
        model = build(recipe.shape, recipe.seed)
        model.load_state_dict(saved["model"])
        export(model, tokenizer, recipe, args.out / f"{recipe.name}-{positions}")
        print(f"{recipe.name}-{positions}: step {saved['step']} of {recipe.total_steps}")


if __name__ == "__main__":
    main()
