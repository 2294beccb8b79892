"""The two models of a pair. They have the same weights, but one adds positions to the input and one rotates them."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel
from transformers.models.jina_embeddings_v3 import JinaEmbeddingsV3Config, JinaEmbeddingsV3Model

from experiments.recipe import Shape

# BERT's parameter names -> those of the rotary model with the same layers.
BERT_TO_ROTARY = (
    (r"^encoder\.layer\.(\d+)\.attention\.self\.query\.", r"layers.\1.self_attn.q_proj."),
    (r"^encoder\.layer\.(\d+)\.attention\.self\.key\.", r"layers.\1.self_attn.k_proj."),
    (r"^encoder\.layer\.(\d+)\.attention\.self\.value\.", r"layers.\1.self_attn.v_proj."),
    (r"^encoder\.layer\.(\d+)\.attention\.output\.dense\.", r"layers.\1.self_attn.o_proj."),
    (r"^encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.", r"layers.\1.post_attention_layernorm."),
    (r"^encoder\.layer\.(\d+)\.intermediate\.dense\.", r"layers.\1.mlp.fc1."),
    (r"^encoder\.layer\.(\d+)\.output\.dense\.", r"layers.\1.mlp.fc2."),
    (r"^encoder\.layer\.(\d+)\.output\.LayerNorm\.", r"layers.\1.post_mlp_layernorm."),
)
INITIALIZER_RANGE = 0.02


def shared_settings(shape: Shape) -> dict[str, Any]:
    """The settings that are the same in the configurations of both models."""
    return {
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_attention_heads": shape.num_attention_heads,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": shape.trained_len,
        "type_vocab_size": 2,
        "pad_token_id": 0,
        "layer_norm_eps": 1e-12,
        "initializer_range": INITIALIZER_RANGE,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


def build_ape(shape: Shape, seed: int) -> BertModel:
    """BERT with a learned absolute position table."""
    torch.manual_seed(seed)
    return BertModel(BertConfig(**shared_settings(shape)), add_pooling_layer=False)


def build_rope(shape: Shape, seed: int) -> JinaEmbeddingsV3Model:
    """The same model, same initial weights, with rotary positions in place of the table."""
    rope = {"rope_type": "default", "rope_theta": shape.rope_theta}
    config = JinaEmbeddingsV3Config(**shared_settings(shape), rope_parameters=rope)
    model = JinaEmbeddingsV3Model(config, add_pooling_layer=False)
    state = {}
    for name, value in build_ape(shape, seed).state_dict().items():
        if "position" in name or "token_type_ids" in name:
            continue
        for pattern, replacement in BERT_TO_ROTARY:
            name = re.sub(pattern, replacement, name)
        state[name] = value
    model.load_state_dict(state, strict=True)
    return model


BUILDERS = {"ape": build_ape, "rope": build_rope}


def embed(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Mean-pooled, normalised embeddings of padded ids `(b, n)`."""
    mask = ids != 0
    unpadded = bool(mask.all())
    hidden = model(input_ids=ids, attention_mask=None if unpadded else mask.long()).last_hidden_state
    if unpadded:
        pooled = hidden.mean(1)
    else:
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    return nn.functional.normalize(pooled, dim=-1)
