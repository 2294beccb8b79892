"""E5-RoPE (Zhu et al. 2024, arXiv:2404.12096, section 3.3), whose files would run its authors' code.

It is BERT with rotary positions, which transformers has as `JinaEmbeddingsV3Model`, with other names of keys.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import JinaEmbeddingsV3Config

from mteb_longembed.errors import ModelError
from mteb_longembed.hub import hub_answers

#: Its model type.
E5_ROPE = "e5rope"
#: What is fetched but for the weights. Code never is.
_SMALL = ["*.json", "*.txt", "*.model"]
#: Settings with the same name and meaning in the authors' configuration and in ours, and the authors' defaults.
_SETTINGS: dict[str, Any] = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "max_position_embeddings": 1536, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    "vocab_size": 50000, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02, "rope_theta": 10_000.0,
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


def e5rope_config(config: Mapping[str, Any]) -> JinaEmbeddingsV3Config:
    """transformers' configuration for the authors' `config.json`."""
    values = {key: config.get(key, default) for key, default in _SETTINGS.items()}
    if config.get("rotary_value"):
        raise ModelError(
            "this E5-RoPE checkpoint also rotates values (rotary_value), and no class of transformers does that."
        )
    rope = {"rope_theta": float(values.pop("rope_theta")), "rope_type": "default"}
    native = JinaEmbeddingsV3Config(**values, rope_parameters=rope)
    native.architectures = ["JinaEmbeddingsV3Model"]
    return native


def e5rope_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
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


@contextmanager
def converted(path: str, commit: str | None) -> Iterator[str]:
    """The path of a converted copy of a folder or repository. It exists as long as the context."""
    folder = Path(path)
    if not folder.is_dir():
        patterns = [*_SMALL, "*.safetensors", "*pytorch_model.bin"]
        offline = not hub_answers()
        folder = Path(
            snapshot_download(path, revision=commit, allow_patterns=patterns, local_files_only=offline)
        )
    if (folder / "model.safetensors").is_file():
        weights = load_file(folder / "model.safetensors")
    elif (folder / "pytorch_model.bin").is_file():
        weights = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    else:
        raise ModelError(f"{folder} has neither model.safetensors nor pytorch_model.bin.")
    with tempfile.TemporaryDirectory() as target:
        for pattern in _SMALL:
            for file in folder.glob(pattern):
                shutil.copy(file, target)
        e5rope_config(json.loads((folder / "config.json").read_text(encoding="utf-8"))).save_pretrained(
            target
        )
        save_file(e5rope_weights(weights), Path(target, "model.safetensors"), {"format": "pt"})
        yield target
