"""A model as a plain checkpoint that old and new readers open, if transformers has settings for its strategy.

sentence-transformers 6 and transformers 5 write names and settings that older versions, and the servers that ship
them, refuse or overlook without a word. Both old and new read the form that is written here.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn
from transformers import PretrainedConfig

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.files import whole_folder

from .card import card_of
from .checkpoint import KINDS, POOLING_SWITCHES, Json, kind_of_loaded
from .head import Head, reader_of
from .load import load
from .model import LongTransformer, check_merged, settings_of
from .swap import ABSOLUTE, ROTARY, UNKNOWN, LongRotary, LongTable, Positions, positions_of
from .weights import TokenWeights

#: What an exported model with weights and a map lacks.
_PROMPTS = (
    "exact vectors of texts with a long prompt or a new one: stock modules count the weights of prompts."
)
#: Where readers that know only a transformer and its pooling look for the pooling.
_POOLING = "1_Pooling"
#: Model type -> where transformers 4 reads the thetas of its full and of its sliding layers.
_THETAS = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}


def export(
    model: str | SentenceTransformer | MultiVectorEncoder | SparseEncoder,
    folder: str | Path,
    *,
    trust_remote_code: bool = False,
) -> list[str]:
    """Write a model as a plain sentence-transformers folder, which old versions and servers open too.

    Args:
        model: a name, a folder that we saved, or a loaded model: an extended one, one that `adapt` made, or any
            `SentenceTransformer`. A loaded model is not changed. A model with late interaction or a sparse one gets a
            folder of its class, which sentence-transformers opens that has the class.
        folder: must be empty or not exist.
        trust_remote_code: run the base repository's own model code.

    Returns:
        One sentence for each difference between the plain checkpoint and the model. The card of an extended model has
        them too.

    Raises:
        IncompatibleError: if a plain checkpoint would be another method.
        InputError: if the folder is not empty.
        StorageError: if the disk refuses a file.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"the folder to export to must be empty or not exist, got {folder}.")
    source: BaseModel
    if isinstance(model, BaseModel):
        source = copy.deepcopy(model)
    else:
        source = load(model, device="cpu", trust_remote_code=trust_remote_code)
    if kind_of_loaded(source) != "dense":
        check_merged(source)
        with whole_folder(folder) as unfinished:
            return _write_class(source, unfinished)
    if not isinstance(source, SentenceTransformer):
        raise IncompatibleError(
            "several vectors a document cannot be a plain checkpoint: they are pooled by modules of ours; use "
            "save_pretrained."
        )
    check_merged(source)
    if not isinstance(source[0], Transformer):
        raise IncompatibleError(
            f"export writes a Transformer and what follows it, got a {type(source[0]).__name__}: use save_pretrained."
        )
    with whole_folder(folder) as unfinished:
        return _write_plain(source, unfinished)


def _write_plain(source: SentenceTransformer, folder: Path) -> list[str]:
    """Write a model, which is changed, into a folder. Returns what `export` does."""
    first: Any = source[0]
    head = Head.of(source)
    lost = [] if head.weights is None else [_PROMPTS]
    length: int | None = source.max_seq_length
    is_ours = isinstance(first, LongTransformer)
    card = cast("Any", source)._model_card_text
    if is_ours:
        length = first.strategy.target_len
        lost += _lost_in(first.config, first.strategy)
        card = card_of(source, folder.name, lost=lost)
        _make_plain(first)
    modules = [first, *head.modules()]
    if isinstance(head.weights, TokenWeights):
        modules[1] = head.weights.stock()
    plain = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
    if not is_ours:
        plain.model_card_data = source.model_card_data
    cast("Any", plain)._model_card_text = card
    plain.save_pretrained(str(folder))
    return lost + _for_old_readers(folder, length)


def _write_class(source: BaseModel, folder: Path) -> list[str]:
    """Write a model with late interaction or a sparse one, which is changed. Returns what `export` does."""
    first: Any = reader_of(source)
    if not isinstance(first, LongTransformer):
        raise IncompatibleError(
            f"export writes extended models, got a {type(source).__name__} that is not extended: use save_pretrained."
        )
    lost = _lost_in(first.config, first.strategy)
    card = card_of(source, folder.name, lost=lost)
    _make_plain(first)
    owner: Any = KINDS[kind_of_loaded(source)]
    plain = owner(modules=list(source), device="cpu", **settings_of(source))
    plain._model_card_text = card
    plain.save_pretrained(str(folder))
    return lost


# ---- the strategy in weights and settings -----------------------------------------------------------------------


def _make_plain(first: Any) -> None:
    """Put the strategy of our first module into its weights and settings, and make it sentence-transformers' own."""
    positions = positions_of(first.config)
    strategy: Strategy = first.strategy
    inner = first.model
    config = inner.config
    if strategy.extends:
        rope = _plain_rope(positions, strategy, config)
        if rope is not None:
            if "full_attention" in config.rope_parameters:
                rope = {**config.rope_parameters, "full_attention": rope}
            config.rope_parameters = rope
            # a window that had no effect in training has none on longer documents
            window = getattr(config, "sliding_window", None)
            if window is not None and strategy.trained_len <= window < strategy.target_len:
                config.sliding_window = strategy.target_len
    if positions is not ABSOLUTE:
        _take_longer_inputs(positions, config, strategy)
    for name, part in list(inner.named_modules()):
        if isinstance(part, LongRotary):
            inner.set_submodule(name, part.base)
        elif isinstance(part, LongTable):
            rows = torch.cat([part.weight.detach()[: part.first_row], part.long.detach()])
            config.max_position_embeddings = len(rows)
            table = nn.Embedding(len(rows), rows.shape[1], part.padding_idx, _weight=rows)
            inner.set_submodule(name, table)
    first.tokenizer.model_max_length = strategy.target_len
    first.max_seq_length = strategy.target_len
    first.__class__ = Transformer


def _plain_rope(positions: Positions, strategy: Strategy, config: PretrainedConfig) -> Json | None:
    """Return the rope parameters of a strategy, None on absolute positions. Refuse what would be another method."""
    if positions is ABSOLUTE:
        if strategy.CUTS:
            raise _refuse(positions, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if strategy.depends_on_length:
            reason = "its groups depend on each document's length; use gp:factor=target"
            raise _refuse(positions, strategy, reason)
        return None
    if positions is UNKNOWN:
        raise _refuse(positions, strategy, "transformers has no setting for it; use save_pretrained")
    if "stock_rope" not in vars(type(strategy)):  # an inherited one is another method
        reason = "it acts on each document while it runs; use ntk, pi, yarn, or save_pretrained"
        raise _refuse(positions, strategy, reason)
    rope = _rope_of(config)
    kind = rope.get("rope_type", "default")
    factor = float(rope.get("factor") or 1.0)
    # yarn would drop the base's own division of frequencies
    if not (kind == "default" or (kind == "linear" and (factor == 1 or not strategy.NEEDS_PLAIN_ROPE))):
        raise IncompatibleError(
            f"{strategy.KEY} on top of rope scaling of type {kind} has no setting in transformers; use save_pretrained."
        )
    return strategy.stock_rope(rope)


def _rope_of(config: PretrainedConfig) -> Json:
    """Return the rope parameters of the layers with full attention."""
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _take_longer_inputs(positions: Positions, config: PretrainedConfig, strategy: Strategy) -> None:
    """Set the longest input to the target length, because sentence-transformers cuts inputs at this setting."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 1 or limit >= strategy.target_len:
        return
    rope: Json = {}
    if positions is ROTARY:
        rope = _rope_of(config)
    kind = rope.get("rope_type", "default")
    if kind == "dynamic" or (kind in ("yarn", "longrope") and rope.get("factor") is None):
        reason = f"its rope scaling of type {kind} is made for at most {limit} tokens"
    elif positions is UNKNOWN:
        reason = f"its files limit inputs to {limit} tokens"
    else:
        config.max_position_embeddings = strategy.target_len
        return
    raise _refuse(positions, strategy, f"{reason}; use @{limit} or less, or save_pretrained")


def _lost_in(config: PretrainedConfig, strategy: Strategy) -> list[str]:
    """Describe each difference between the plain checkpoint and the extended model in one sentence."""
    positions = positions_of(config)
    lo = strategy.trained_len
    lost = []
    if strategy.extends and not strategy.changes(lo, rotary=positions is ROTARY):
        rows = torch.arange(lo, dtype=torch.float32)[:, None]
        # in a table, `rp` leaves the first rows as they are
        if positions is not ABSOLUTE or not torch.equal(strategy.long_rows(rows)[:lo], rows):
            lost.append(
                f"inputs of at most {lo} tokens are extended like longer ones, but the extended model "
                "gives them the base model's embedding."
            )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"inputs beyond {lo} tokens get no attention scaling: the checkpoint is the model with logn=off."
        )
    if positions is ROTARY and _rope_of(config).get("rope_type") == "longrope":
        lost.append(
            "frequencies by each document's own length: transformers chooses those of a whole batch by its longest "
            "input."
        )
    return lost


def _refuse(positions: Positions, strategy: Strategy, reason: str) -> IncompatibleError:
    """Return the error for a plain checkpoint that would be another method."""
    return IncompatibleError(
        f"{strategy.KEY} on {positions.name} positions cannot be a plain checkpoint: {reason}."
    )


# ---- a form that old and new readers know -----------------------------------------------------------------------


def _for_old_readers(folder: Path, max_seq_length: int | None) -> list[str]:
    """Rewrite the files of a folder that `save_pretrained` of a SentenceTransformer has just written.

    Returns:
        One sentence for each thing that no form of the folder makes old versions do.
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
            f"the extension in transformers before 5.0, whose {config['model_type']} has no rope scaling."
        ]
    return []


def _pooling_with_switches(pooling: Json) -> Json:
    """Return the settings of a pooling as folders had them before sentence-transformers 6."""
    mode = pooling["pooling_mode"]
    modes = [mode] if isinstance(mode, str) else mode
    return {
        "word_embedding_dimension": pooling["embedding_dimension"],
        **{key: name in modes for key, name in POOLING_SWITCHES.items()},
        "include_prompt": pooling["include_prompt"],
    }


def _with_old_rope(config: Json) -> Json:
    """Return a configuration with rotary settings in the places of both transformers 4 and transformers 5."""
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
    """Write what `change` makes of a file's JSON. A file that is not there stays away."""
    if file.exists():
        _write(file, change(json.loads(file.read_text(encoding="utf-8"))))


def _write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
