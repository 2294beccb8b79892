"""A saved folder in the form that old and new readers know.

sentence-transformers 6 and transformers 5 write names and settings that older versions, and the servers that ship
them, refuse or overlook without a word. Both old and new read the form that is written here.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.sentence_transformer.modules import Dense, Transformer
from torch import nn

from mteb_longembed.encoders.checkpoints.base import POOLING_SWITCHES
from mteb_longembed.encoders.heads.head import routes
from mteb_longembed.errors import IncompatibleError

#: The content of a JSON object.
Json = dict[str, Any]
#: Modules behind a transformer that old versions have under the same name.
_KNOWN = ("Pooling", "Dense", "Normalize", "WordWeights", "LayerNorm", "Dropout")
#: Where readers that know only a transformer and its pooling look for the pooling.
_POOLING = "1_Pooling"
#: Class of a module -> the settings that its old class takes. Other classes take all of theirs.
_SETTINGS = {
    "Dense": ("in_features", "out_features", "bias", "activation_function"),
    "WordWeights": ("vocab", "word_weights", "unknown_word_weight"),
}
#: Model type -> where transformers 4 reads the thetas of its full and of its sliding layers.
_THETAS = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}
#: Settings of a tokenizer that are lengths in tokens.
_LENGTHS = ("model_max_length", "max_length")


def check_old_readers(modules: Sequence[nn.Module]) -> None:
    """Refuse modules that no form of a folder makes old readers run as they are.

    Raises:
        IncompatibleError: if a module is of another kind, or has a setting that old readers do not know.
    """
    first, *others = modules
    if any(hasattr(part, "merged_adapters") for part in first.modules()):
        raise IncompatibleError(
            "a model with adapters must be merged before it is exported: call merge_and_unload() of the PEFT model."
        )
    if not isinstance(first, Transformer):
        raise IncompatibleError(
            f"export writes a Transformer and what follows it, got a {type(first).__name__}: use save_pretrained."
        )
    parts = [part for module in others for part in routes(module)]
    for part in parts:
        kind = type(part).__name__
        if kind not in _KNOWN:
            raise IncompatibleError(f"old readers have no {kind}: use save_pretrained.")
        if not isinstance(part, Dense):
            continue
        if part.use_residual:
            raise IncompatibleError("old readers have no Dense with use_residual: use save_pretrained.")
        if {part.module_input_name, part.module_output_name} != {"sentence_embedding"}:
            raise IncompatibleError(
                f"old readers have no Dense of {part.module_input_name}, only of sentence_embedding: use "
                "save_pretrained."
            )


def for_old_readers(folder: Path, max_seq_length: int | None) -> list[str]:
    """Rewrite the files of a folder that `save_pretrained` of a SentenceTransformer has just written.

    Returns:
        One sentence for each thing that no form of the folder makes old versions do.
    """
    modules: list[Json] = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        if module["type"].endswith(".Pooling") and not (folder / _POOLING).exists():
            (folder / module["path"]).rename(folder / _POOLING)
            module["path"] = _POOLING
        module["type"] = _rewrite_module(folder / module["path"], module["type"])
    _write(folder / "modules.json", modules)
    # an old Transformer takes no other settings
    length = {} if max_seq_length is None else {"max_seq_length": max_seq_length}
    _write(folder / "sentence_bert_config.json", {**length, "do_lower_case": False})
    _change(folder / "config.json", _with_old_rope)
    if max_seq_length is not None:
        _change(folder / "tokenizer.json", lambda content: _cut_at(content, max_seq_length))
    _change(folder / "tokenizer_config.json", lambda content: _old_tokenizer(content, max_seq_length))
    return _unknown_to_old(folder, modules)


def _unknown_to_old(folder: Path, modules: list[Json]) -> list[str]:
    """What old versions lack altogether."""
    unknown = []
    if any(module["type"].endswith(".Router") for module in modules):
        unknown.append(
            "support for sentence-transformers before 5.0, which lacks the Router that example queries need."
        )
    config: Json = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    full = (config.get("rope_parameters") or {}).get("full_attention", {})
    if full.get("rope_type", "default") != "default" and "rope_scaling" not in config:
        unknown.append(
            f"the extension in transformers before 5.0, whose {config['model_type']} has no rope scaling."
        )
    return unknown


def _rewrite_module(folder: Path, reference: str) -> str:
    """Rewrite the settings of a module. Returns its class by the name that old and new readers know."""
    if not reference.startswith("sentence_transformers."):
        return reference
    name = reference.rpartition(".")[2]
    file = folder / "config.json"
    if name == "Pooling":
        _change(file, _pooling_with_switches)
    if name in _SETTINGS:
        _change(file, lambda content: {key: content[key] for key in _SETTINGS[name]})
    if name == "Router":
        _change(folder / "router_config.json", lambda content: _old_router(folder, content))
    return f"sentence_transformers.models.{name}"


def _old_router(folder: Path, content: Json) -> Json:
    """The routes of a Router with the old names of their modules, whose folders are rewritten."""
    types = {path: _rewrite_module(folder / path, kind) for path, kind in content["types"].items()}
    settings = content["parameters"]
    old = {key: settings[key] for key in ("default_route", "allow_empty_key")}
    return {**content, "types": types, "parameters": old}


def _pooling_with_switches(pooling: Json) -> Json:
    """The settings of a pooling as folders had them before sentence-transformers 6."""
    mode = pooling["pooling_mode"]
    modes = [mode] if isinstance(mode, str) else mode
    return {
        "word_embedding_dimension": pooling["embedding_dimension"],
        **{key: name in modes for key, name in POOLING_SWITCHES.items()},
        "include_prompt": pooling["include_prompt"],
    }


def _with_old_rope(config: Json) -> Json:
    """A configuration with the rotary settings where transformers 4 reads them, beside those of transformers 5."""
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
    """A tokenizer.json that cuts at the target length, if it cuts, and pads to no length of its own."""
    if tokenizer.get("truncation"):
        tokenizer["truncation"]["max_length"] = length
    if tokenizer.get("padding"):
        tokenizer["padding"]["strategy"] = "BatchLongest"
    return tokenizer


def _old_tokenizer(config: Json, length: int | None) -> Json:
    """The settings of a tokenizer with the target length, and a class and special tokens that transformers 4 knows."""
    changed = dict(config)
    if length is not None:
        changed |= {key: length for key in _LENGTHS if key in config}
    if config.get("tokenizer_class") == "TokenizersBackend":
        changed["tokenizer_class"] = "PreTrainedTokenizerFast"
        # the two classes differ in whether they give token types
        changed.setdefault("model_input_names", ["input_ids", "attention_mask"])
    if isinstance(config.get("extra_special_tokens"), list):
        changed["additional_special_tokens"] = changed.pop("extra_special_tokens")
    return changed


def _change(file: Path, change: Callable[[Json], Json]) -> None:
    """Write what `change` makes of a file's JSON. A file that is not there stays away."""
    if file.exists():
        _write(file, change(json.loads(file.read_text(encoding="utf-8"))))


def _write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
