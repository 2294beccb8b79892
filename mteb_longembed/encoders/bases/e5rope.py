"""E5-RoPE: the authors' checkpoint, read into a class that transformers already has.

Source: Zhu et al. 2024, arXiv:2404.12096, section 3.3 (E5-RoPE-Base); weights dwzhu/e5rope-base.

Their model is BERT with rotary positions. transformers has it as `JinaEmbeddingsV3Model`, with other names of keys. So
we rename the keys and never run the authors' code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import JinaEmbeddingsV3Config

from mteb_longembed.errors import ModelError

from .model_files import Json

#: Settings with the same name and meaning in the authors' configuration and in ours, and the authors' defaults.
_SETTINGS: Json = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 1536, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    "vocab_size": 50000, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}  # fmt: skip
#: Names inside a layer: the authors' name -> transformers' name.
_RENAMED = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.o_proj",
    "attention.output.LayerNorm": "post_attention_layernorm",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
    "output.LayerNorm": "post_mlp_layernorm",
}
#: Weights that embeddings do not need: heads, the pooler, tables that are computed.
_UNUSED = re.compile(r"pooler\.|cls\.|.*rotary_emb\.|.*position_ids$|encoder\.embed_positions\.")
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.(.+)\.(weight|bias)")


def native_config(config: Json) -> JinaEmbeddingsV3Config:
    """transformers' configuration for the authors' `config.json`."""
    values: Json = {key: config.get(key, default) for key, default in _SETTINGS.items()}
    if config.get("rotary_value"):
        raise ModelError(
            "this E5-RoPE checkpoint also rotates values (rotary_value), and no class of transformers does that."
        )
    rope = {"rope_theta": float(config.get("rope_theta", 10_000.0)), "rope_type": "default"}
    native = JinaEmbeddingsV3Config(**values, rope_parameters=rope)
    native.architectures = ["JinaEmbeddingsV3Model"]
    return native


def native_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The authors' weights under transformers' names, without the parts that embeddings do not need."""
    out: dict[str, Tensor] = {}
    for key, value in weights.items():
        name = key.removeprefix("e5rope.")
        if _UNUSED.match(name):
            continue
        if name.startswith("embeddings."):
            out[name] = value
            continue
        match = _LAYER.fullmatch(name)
        if match is None or match[2] not in _RENAMED:
            raise ModelError(f"{key} is not a weight of an E5-RoPE checkpoint.")
        out[f"layers.{match[1]}.{_RENAMED[match[2]]}.{match[3]}"] = value.contiguous()
    return out


def save_native(source: Path, target: Path) -> None:
    """Save the authors' model as one of transformers' own."""
    config = native_config(json.loads((source / "config.json").read_text(encoding="utf-8")))
    weights = native_weights(_read_weights(source))
    config.save_pretrained(target)
    save_file(weights, target / "model.safetensors", {"format": "pt"})


def _read_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / "model.safetensors").is_file():
        return load_file(folder / "model.safetensors")
    if (folder / "pytorch_model.bin").is_file():
        return torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    raise ModelError(f"{folder} has neither model.safetensors nor pytorch_model.bin.")
