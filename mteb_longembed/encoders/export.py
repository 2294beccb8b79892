"""An extended model as a plain checkpoint, if transformers has settings for its strategy."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.modules.transformer import LongTransformer
from mteb_longembed.errors import IncompatibleError, InputError

from .building import settings_of
from .checkpoints.base import POOLING_SWITCHES
from .checkpoints.strategy_file import Json
from .extend import load
from .families import Family
from .families.absolute import Absolute
from .families.family import UnknownPositions
from .families.rotary import Rotary, lift_window
from .publishing.card import exported_card
from .publishing.rope_export import RopeParameters, lost_in, plain_rope, refuse, rope_of
from .strategies import Strategy

#: The modules that every reader knows, by the names of their classes.
_KNOWN_TO_ALL = ("Transformer", "Pooling", "Dense", "Normalize")


def export(
    model: str | SentenceTransformer | MultiVectorEncoder,
    folder: str | Path,
    *,
    trust_remote_code: bool = False,
) -> list[str]:
    """Write an extended model as a plain sentence-transformers folder.

    Args:
        model: a name, a folder that we saved, or a loaded extended model. A loaded model is not changed.
        folder: must be empty or not exist.
        trust_remote_code: run the base repository's own model code.

    Returns:
        One sentence for each difference between the plain checkpoint and our model. The model card has them too.

    Raises:
        IncompatibleError: if a plain checkpoint would be another method.
        InputError: if the folder is not empty, or the model is not an extended one.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"the folder to export to must be empty or not exist, got {folder}.")
    source: SentenceTransformer | MultiVectorEncoder
    if isinstance(model, (SentenceTransformer, MultiVectorEncoder)):
        source = copy.deepcopy(model)
    else:
        source = load(model, device="cpu", trust_remote_code=trust_remote_code)
    first = source[0]
    if not isinstance(first, LongTransformer):
        raise InputError("only an extended model can be exported: extend it first.")
    if not isinstance(source, SentenceTransformer):
        raise IncompatibleError(
            "several vectors a document cannot be a plain checkpoint: they are pooled by modules of ours; use "
            "save_pretrained."
        )
    stock = _plain_transformer(first, trust_remote_code=trust_remote_code)
    modules = [stock, *list(source)[1:]]
    result = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
    result.save_pretrained(str(folder), create_model_card=False)
    _write_for_other_readers(folder, first.strategy.target_len)
    lost = lost_in(first.family, first.strategy)
    if isinstance(first.family, Rotary) and rope_of(first.model.config).get("rope_type") == "longrope":
        lost.append(
            "frequencies by each document's own length: transformers chooses those of a whole batch by its "
            "longest input."
        )
    card = exported_card(source, folder.resolve().name, lost)
    (folder / "README.md").write_text(card, encoding="utf-8")
    return lost


def _plain_transformer(first: LongTransformer, *, trust_remote_code: bool) -> Transformer:
    """sentence-transformers' own first module, with the strategy in its weights and settings. `first` is changed."""
    strategy = first.strategy
    family = first.family
    inner = first.model
    tokenizer = cast("PreTrainedTokenizerBase", first.tokenizer)
    state = inner.state_dict()
    if strategy.KEY != "none":
        rope = plain_rope(family, strategy, inner.config)
        if rope is None:
            _write_table(cast("Absolute", family), inner, strategy, state)
        else:
            if "full_attention" in inner.config.rope_parameters:
                rope = {**inner.config.rope_parameters, "full_attention": rope}
            inner.config.rope_parameters = rope
            lift_window(inner.config, strategy)
    if not isinstance(family, Absolute):
        _take_longer_inputs(family, inner.config, strategy)
    tokenizer.model_max_length = strategy.target_len
    with tempfile.TemporaryDirectory() as temporary:
        inner.save_pretrained(temporary, state_dict=state)
        tokenizer.save_pretrained(temporary)
        stock: Transformer = Transformer.load(temporary, trust_remote_code=trust_remote_code)
    stock.max_seq_length = strategy.target_len
    return stock


def _write_for_other_readers(folder: Path, max_seq_length: int) -> None:
    """Write the files of the modules in the form that all readers know, old and new.

    sentence-transformers 6 names its classes and poolings anew, and reads both forms. text-embeddings-inference refuses
    the new names, and a vLLM that does not know them pools by the architecture's default without a word.
    """
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        name = module["type"].rpartition(".")[2]
        if name in _KNOWN_TO_ALL:
            module["type"] = f"sentence_transformers.models.{name}"
        file = folder / module["path"] / "config.json"
        if name == "Pooling":
            pooling = json.loads(file.read_text(encoding="utf-8"))
            _write_json(file, _pooling_for_all(pooling))
    _write_json(folder / "modules.json", modules)
    file = folder / "sentence_bert_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    _write_json(file, {**settings, "max_seq_length": max_seq_length, "do_lower_case": False})


def _pooling_for_all(pooling: Json) -> Json:
    """The configuration of a pooling as folders had it before sentence-transformers 6."""
    mode = pooling["pooling_mode"]
    modes = [mode] if isinstance(mode, str) else mode
    switches = {key: name in cast("list[str]", modes) for key, name in POOLING_SWITCHES.items()}
    return {
        "word_embedding_dimension": pooling["embedding_dimension"],
        **switches,
        "include_prompt": pooling.get("include_prompt", True),
    }


def _write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _take_longer_inputs(family: Family, config: PretrainedConfig, strategy: Strategy) -> None:
    """Set the longest input to the target length, because sentence-transformers cuts inputs at this setting."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 1 or limit >= strategy.target_len:
        return
    rope: RopeParameters = {}
    if isinstance(family, Rotary):
        rope = rope_of(config)
    kind = rope.get("rope_type", "default")
    if kind == "dynamic" or (kind in ("yarn", "longrope") and rope.get("factor") is None):
        reason = f"its rope scaling of type {kind} is made for at most {limit} tokens"
        raise refuse(family, strategy, f"{reason}; use @{limit} or less, or save_pretrained")
    if isinstance(family, UnknownPositions):
        reason = f"its files limit inputs to {limit} tokens"
        raise refuse(family, strategy, f"{reason}; use @{limit} or less, or save_pretrained")
    config.max_position_embeddings = strategy.target_len


def _write_table(
    family: Absolute, inner: PreTrainedModel, strategy: Strategy, state: dict[str, Tensor]
) -> None:
    """Write one row for each position, as a long document looks them up."""
    key = next(name for name in state if name.endswith("position_embeddings.weight"))
    table = state[key]
    first = family.first_row
    p = torch.arange(strategy.target_len)
    n = torch.tensor(strategy.target_len)
    if family.has_table:
        rows = strategy.table_rows(p, n)
    else:
        rows = strategy.position_ids(p, n)
    state[key] = torch.cat([table[:first], table[first + rows.to(table.device)]])
    inner.config.max_position_embeddings = len(state[key])
