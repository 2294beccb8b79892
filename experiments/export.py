"""Write a trained model as an ordinary sentence-transformers folder, with weights in half precision."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedTokenizerFast

from experiments.recipe import Recipe


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def export(model: nn.Module, tokenizer: Tokenizer, recipe: Recipe, out: Path) -> None:
    """Plain `SentenceTransformer(out)` loads it. config.json says float32, so it computes in float32."""
    out.mkdir(parents=True, exist_ok=True)
    config = model.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "torch_dtype", "dtype"):
        config.pop(key, None)
    config |= {"architectures": [type(model).__name__], "dtype": "float32"}
    write_json(out / "config.json", config)
    weights = {n: p.detach().half().cpu().contiguous() for n, p in model.named_parameters()}
    # never used, because embeddings are means, but stock classes expect these weights
    width = recipe.shape.hidden_size
    weights |= {
        "pooler.dense.weight": torch.zeros(width, width).half(),
        "pooler.dense.bias": torch.zeros(width).half(),
    }
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=recipe.shape.trained_len,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(out)
    write_json(
        out / "modules.json",
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
    )
    write_json(out / "1_Pooling/config.json", {"embedding_dimension": width, "pooling_mode": "mean"})
    (out / "2_Normalize").mkdir(exist_ok=True)
    write_json(
        out / "sentence_bert_config.json",
        {"max_seq_length": recipe.shape.trained_len, "do_lower_case": False},
    )
    write_json(
        out / "config_sentence_transformers.json",
        {"model_type": "SentenceTransformer", "prompts": {}, "similarity_fn_name": "cosine"},
    )
