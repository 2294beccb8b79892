"""Rewrite a sentence-transformers folder so that both old and new readers open it.

sentence-transformers 6 and transformers 5 write names and settings that older versions, and servers that ship them,
refuse or silently ignore.
"""

import json
from collections.abc import Callable
from pathlib import Path

from mteb_longembed.files import Json

from .pooling import POOLING_SWITCHES

#: The folder in which readers that know only a transformer and its pooling look for the pooling.
_POOLING = "1_Pooling"
#: Model type -> the settings from which transformers 4 reads the thetas of full and of sliding layers.
_THETAS = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}


def rewrite_for_old_readers(folder: Path, max_seq_length: int | None) -> list[str]:
    """Rewrite the files of a folder that a SentenceTransformer's `save_pretrained` has just written.

    Returns:
        One note for each feature that no form of the folder gives to old versions.
    """
    modules: list[Json] = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        kind = module["type"].rpartition(".")[2]
        if kind == "Pooling" and not (folder / _POOLING).exists():
            (folder / module["path"]).rename(folder / _POOLING)
            module["path"] = _POOLING
        if kind == "Pooling":
            _change(folder / module["path"] / "config.json", _pooling_with_switches)
        elif kind == "Dense":
            # without the feature names that the old class has by default
            _change(
                folder / module["path"] / "config.json",
                lambda dense: {key: value for key, value in dense.items() if value != "sentence_embedding"},
            )
        if module["type"].startswith("sentence_transformers.") and kind != "Router":
            module["type"] = f"sentence_transformers.models.{kind}"
    _write(folder / "modules.json", modules)
    # an old Transformer accepts no other settings
    length = {} if max_seq_length is None else {"max_seq_length": max_seq_length}
    _write(folder / "sentence_bert_config.json", {**length, "do_lower_case": False})
    _change(folder / "config.json", _with_old_rope)
    if max_seq_length is not None:
        _change(folder / "tokenizer.json", lambda content: _cut_at(content, max_seq_length))
    _change(folder / "tokenizer_config.json", lambda content: _old_tokenizer(content, max_seq_length))
    config: Json = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    full = (config.get("rope_parameters") or {}).get("full_attention", {})
    if full.get("rope_type", "default") != "default" and "rope_scaling" not in config:
        return [
            f"transformers before 5.0 reads the base model, because its {config['model_type']} has no rope scaling."
        ]
    return []


def _pooling_with_switches(pooling: Json) -> Json:
    """Return the settings of a pooling in the form before sentence-transformers 6."""
    mode = pooling["pooling_mode"]
    modes = [mode] if isinstance(mode, str) else mode
    return {
        "word_embedding_dimension": pooling["embedding_dimension"],
        **{key: name in modes for key, name in POOLING_SWITCHES.items()},
        "include_prompt": pooling["include_prompt"],
    }


def _with_old_rope(config: Json) -> Json:
    """Return a configuration with the rotary settings of both transformers 4 and transformers 5."""
    rope = config.get("rope_parameters")
    if not rope:
        return config
    full = rope.get("full_attention", rope)
    old: Json = {}
    if full is rope:
        old["rope_theta"] = rope["rope_theta"]
    elif config["model_type"] in _THETAS:
        of_full, of_sliding = _THETAS[config["model_type"]]
        old = {of_full: full["rope_theta"], of_sliding: rope["sliding_attention"]["rope_theta"]}
    if "partial_rotary_factor" in full:
        old["partial_rotary_factor"] = full["partial_rotary_factor"]
    # scaling beside thetas by layer would reach the sliding layers too, Gemma's aside
    has_scaling = full is rope or config["model_type"] == "gemma3_text"
    if has_scaling and full.get("rope_type", "default") != "default":
        old["rope_scaling"] = full
    return {**config, **old}


def _cut_at(tokenizer: Json, length: int) -> Json:
    """Return a tokenizer.json that truncates at the target length, if it truncates, and has no fixed padding."""
    if tokenizer.get("truncation"):
        tokenizer["truncation"]["max_length"] = length
    if tokenizer.get("padding"):
        tokenizer["padding"]["strategy"] = "BatchLongest"
    return tokenizer


def _old_tokenizer(config: Json, length: int | None) -> Json:
    """Return tokenizer settings with the target length, and a class and special tokens of transformers 4."""
    if length is not None:
        config |= {key: length for key in ("model_max_length", "max_length") if key in config}
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        # the two classes differ in whether they give token types
        config.setdefault("model_input_names", ["input_ids", "attention_mask"])
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    return config


def _change(file: Path, change: Callable[[Json], Json]) -> None:
    """Apply `change` to the JSON of a file, if it exists."""
    if file.exists():
        _write(file, change(json.loads(file.read_text(encoding="utf-8"))))


def _write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
