"""(c) The cost of each strategy: a forward pass, compared with the base's own at the same number of tokens.

`python benchmarks/strategies.py --size small --tokens 2048 --rounds 5`
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator

import torch
from materials import SIZES, alternating, base_model, table
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

import mteb_longembed as longembed


def rotary_model(size: str, max_len: int, folder: str) -> SentenceTransformer:
    """A rotary encoder of this size (E5-RoPE's architecture) with random weights."""
    layers, width, heads = SIZES[size]
    torch.manual_seed(0)
    config = JinaEmbeddingsV3Config(
        vocab_size=4000,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=max_len,
        pad_token_id=0,
        type_vocab_size=2,
    )
    JinaEmbeddingsV3Model(config, add_pooling_layer=False).save_pretrained(folder)
    base_model("tiny", max_len, folder + "/tokenizer").tokenizer.save_pretrained(folder)
    made = SentenceTransformer(modules=[Transformer(folder), Pooling(width, "mean")], device="cpu")
    made.model_card_data.model_name = f"benchmark/rotary-{size}"
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows = [row for family in PLANS for row in compare(family, args.size, args.tokens, args.rounds)]
    print(table(HEAD, rows))


PLANS: dict[str, list[str]] = {
    "absolute": ["pcw", "gp", "rp", "pi", "ntk"],
    "rotary": ["pcw", "gp", "rp", "pi", "ntk", "se", "dca"],
}
HEAD = ["positions", "strategy", "tokens", "base s", "strategy s", "strategy / base"]


def compare(
    family: str, size: str, tokens: int, rounds: int, device: str = "cpu", dtype: str = "float32"
) -> Iterator[list[object]]:
    """One row for each strategy: one document of `n` tokens, in the extended model and in the base itself."""
    make = base_model if family == "absolute" else rotary_model
    with tempfile.TemporaryDirectory() as folder:
        wide, trained = make(size, tokens, folder + "/wide"), make(size, 512, folder + "/trained")
        for base in (wide, trained):
            base[0].model.to(getattr(torch, dtype))
        baseline = forward(longembed.extend(wide, "none", device=device), tokens)
        for key in PLANS[family]:
            extended = longembed.extend(trained, key, target_len=tokens, device=device)
            base_s, own_s = alternating(rounds, baseline, forward(extended, tokens))
            yield [family, key, tokens, base_s, own_s, own_s / base_s]


def forward(model: SentenceTransformer, n: int) -> Callable[[], object]:
    """A function that runs one document of `n` tokens through the model. A first pass is made here."""
    ids = torch.randint(5, 4000, (1, n))
    ids[0, 0], ids[0, -1] = 2, 3
    ids = ids.to(model.device)

    def run() -> object:
        with torch.inference_mode():
            return model({"input_ids": ids, "attention_mask": torch.ones_like(ids), "modality": "text"})

    run()
    return run


if __name__ == "__main__":
    main()
