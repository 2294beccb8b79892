"""Checkpoints that we read as another class of transformers than the one that their files name.

E5-RoPE (Zhu et al. 2024, arXiv:2404.12096, section 3.3) would run its authors' code. It is BERT with rotary positions,
which transformers has as `JinaEmbeddingsV3Model`, with other names of keys. EmbeddingGemma 2 also reads pictures and
sound: its language model is a model of its own, and needs no library for the rest.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, JinaEmbeddingsV3Config, PretrainedConfig

from mteb_longembed.errors import ModelError
from mteb_longembed.hub import hub_answers

from .model_files import Files
from .strategy_file import Json

#: What is fetched but for the weights, and what is not copied from it. Code never is.
_SMALL = ["*.json", "*.txt", "*.model", "*.jinja"]
_LEFT_OUT = ("*.py", "*index*", ".*", "*processor*", "sentence_bert_config.json")
#: Settings with the same name and meaning in the authors' configuration and in ours, and the authors' defaults.
_SETTINGS: Json = {
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


def native_config(config: Json) -> JinaEmbeddingsV3Config:
    """transformers' configuration for the authors' `config.json`."""
    values: dict[str, Any] = {key: config.get(key, default) for key, default in _SETTINGS.items()}
    if config.get("rotary_value"):
        raise ModelError(
            "this E5-RoPE checkpoint also rotates values (rotary_value), and no class of transformers does that."
        )
    rope = {"rope_theta": float(values.pop("rope_theta")), "rope_type": "default"}
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
    if (source / "model.safetensors").is_file():
        weights = load_file(source / "model.safetensors")
    elif (source / "pytorch_model.bin").is_file():
        weights = torch.load(source / "pytorch_model.bin", map_location="cpu", weights_only=True)
    else:
        raise ModelError(f"{source} has neither model.safetensors nor pytorch_model.bin.")
    config.save_pretrained(target)
    save_file(native_weights(weights), target / "model.safetensors", {"format": "pt"})


def text_config(config: Json) -> PretrainedConfig:
    """The configuration of the language model inside a model that also reads pictures or sound."""
    inner = cast("dict[str, Any]", config["text_config"]).copy()
    return AutoConfig.for_model(inner.pop("model_type"), **inner)


def save_text_model(source: Path, target: Path) -> None:
    """Save the language model of a folder alone."""
    model = AutoModel.from_pretrained(source, vision_config=None, audio_config=None, dtype="auto")
    model.language_model.save_pretrained(target)


#: Model type -> the configuration for its `config.json`, and what writes the model from one folder to another.
NATIVE: dict[str, tuple[Callable[[Json], PretrainedConfig], Callable[[Path, Path], None]]] = {
    "e5rope": (native_config, save_native),
    "embedding_gemma2": (text_config, save_text_model),
}


@contextmanager
def native_folder(files: Files, model_type: str) -> Iterator[str]:
    """The path of a converted copy of a checkpoint. It exists as long as the context."""
    folder = Path(files.path)
    if not files.local:
        for weights in ("*.safetensors", "*pytorch_model.bin"):
            offline = not hub_answers()
            snapshot = snapshot_download(
                files.path, revision=files.commit, allow_patterns=[*_SMALL, weights], local_files_only=offline
            )
            folder = Path(snapshot)
            if list(folder.glob(weights)):
                break
    with tempfile.TemporaryDirectory() as target:

        def left_out(place: str, names: list[str]) -> set[str]:
            # only the model's own weights are written anew: later modules keep theirs
            patterns = [*_LEFT_OUT]
            if Path(place) == folder:
                patterns += ["*.safetensors", "*.bin"]
            return shutil.ignore_patterns(*patterns)(place, names)

        shutil.copytree(folder, target, ignore=left_out, dirs_exist_ok=True)
        NATIVE[model_type][1](folder, Path(target))
        yield target
