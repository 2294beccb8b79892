"""The authors' E5-RoPE layout through a key map, against their forward pass written out from its formulas."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mteb_longembed.encoders.load import extend, load
from mteb_longembed.errors import ModelError
from tests import tiny
from tests.encoders.attention_oracles import rotated

H, D, LAYERS = 4, 32, 2
CONFIG = {
    "model_type": "e5rope", "auto_map": {"AutoModel": "modeling_e5rope.E5RopeModel"}, "vocab_size": 431,
    "embedding_size": D, "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": H,
    "intermediate_size": 64, "hidden_act": "gelu", "max_position_embeddings": 512, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "pad_token_id": 0, "rope_theta": 10000, "rotary_value": False, "use_pose": False,
}  # fmt: skip


def authors_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights under the authors' names."""
    torch.manual_seed(seed)
    shapes = {
        "embeddings.word_embeddings.weight": (431, D), "embeddings.token_type_embeddings.weight": (2, D),
        "embeddings.LayerNorm.weight": (D,), "embeddings.LayerNorm.bias": (D,),
    }  # fmt: skip
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}"
        linear = {
            "attention.self.query": (D, D), "attention.self.key": (D, D), "attention.self.value": (D, D),
            "attention.output.dense": (D, D), "intermediate.dense": (64, D), "output.dense": (D, 64),
        }  # fmt: skip
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (D,), f"{layer}.{name}.bias": (D,)}
    return {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}


def authors_forward(weights: dict[str, torch.Tensor], ids: list[int]) -> np.ndarray:
    """Hidden states in float64: post-norm BERT, queries and keys rotated in halves, values not."""
    w = {name: value.double() for name, value in weights.items()}

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-12).sqrt()
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    n, d = len(ids), D // H
    at, inv_freq = torch.arange(n).double(), 1e4 ** -(torch.arange(0, d, 2).double() / d)
    for layer in (f"encoder.layer.{i}" for i in range(LAYERS)):
        names = (f"{layer}.attention.self.{name}" for name in ("query", "key", "value"))
        q, k, v = (linear(x, name).view(n, H, d).transpose(0, 1) for name in names)
        q, k = (rotated(x, at, inv_freq) for x in (q, k))
        scores = q @ k.transpose(1, 2) / math.sqrt(d)
        seen = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, D)
        x = norm(linear(seen, f"{layer}.attention.output.dense") + x, f"{layer}.attention.output.LayerNorm")
        inner = torch.nn.functional.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
    return x.numpy()


def folder_of(path: Path, weights: dict[str, torch.Tensor], *, safetensors: bool = True, **config) -> Path:
    """The authors' repository: config with `auto_map`, code that must never run, weights, tokenizer."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (path / "modeling_e5rope.py").write_text("raise SystemExit('remote code ran')\n")
    tiny.tokenizer(512).save_pretrained(path)
    if safetensors:
        save_file(weights, path / "model.safetensors")
    else:
        torch.save(weights, path / "pytorch_model.bin")
    return path


@pytest.mark.parametrize("where", ["folder", "pickle", "hub"])
def test_extend_reads_the_authors_layout_without_their_code(tmp_path, empty_hub, where):
    weights = authors_weights()
    base = str(folder_of(tmp_path / "theirs", weights, safetensors=where != "pickle"))
    if where == "hub":
        empty_hub.add("dwzhu/e5rope-base", base)
        model = load("e5-rope-base+se@2048")
        assert model.model_card_data.model_name == "dwzhu/e5rope-base+se@2048"
        assert model.prompts["query"] == "query: "
    else:
        model = extend(base, "se", 2048, 512)
    text = tiny.text(40)
    want = authors_forward(weights, model.tokenizer(text)["input_ids"])
    tokens = model.encode(text, prompt="", output_value="token_embeddings").numpy()
    assert np.abs(tokens - want).max() < 1e-4
    assert np.abs(model.encode(text, prompt="") - want.mean(0)).max() < 1e-4
    assert np.isfinite(model.encode(tiny.text(700))).all()


def test_heads_poolers_and_prefixes_are_left_out_and_a_saved_model_reads_itself(tmp_path):
    weights = authors_weights()
    more = {f"e5rope.{name}": value for name, value in weights.items()}
    more |= {"e5rope.pooler.dense.weight": torch.ones(D, D), "cls.predictions.bias": torch.ones(1)}
    more |= {"e5rope.encoder.layer.0.attention.self.rotary_emb.inv_freq": torch.ones(1)}
    model, same = (
        extend(folder_of(tmp_path / name, w), "pi", 512, 64) for name, w in (("one", weights), ("two", more))
    )
    want = model.encode(tiny.text(100))
    assert np.array_equal(same.encode(tiny.text(100)), want)
    model.save_pretrained(str(tmp_path / "saved"))
    assert np.array_equal(load(tmp_path / "saved").encode(tiny.text(100)), want)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {k: v for k, v in w.items() if ".key." not in k}, "lacks 4 weights.*k_proj"),
        (lambda w: w | {"embeddings.LayerNorm.bias": torch.ones(3)}, "cannot be loaded.*mismatched"),
    ],
)
def test_damaged_weights_are_named(tmp_path, change, message):
    with pytest.raises(ModelError, match=message):
        extend(folder_of(tmp_path / "theirs", change(authors_weights())), "none", 512)


def test_other_architectures_under_the_same_name_are_refused(tmp_path):
    with pytest.raises(ModelError, match="also rotates values"):
        extend(folder_of(tmp_path / "theirs", authors_weights(), rotary_value=True), "none", 512)
