"""An extended model as a plain checkpoint, where transformers can express it.

What a plain checkpoint cannot carry is named, or refused where the result would be another method.
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import PretrainedConfig

from mteb_longembed.errors import InputError, MisfitError

from .extend import load
from .families.absolute import Absolute
from .families.opaque import Opaque
from .families.rotary import Rotary, lift_window
from .model import settings_of
from .strategies import Strategy

#: Rope types whose frequencies a larger theta or a further division changes as the strategy does.
_STACKABLE = ("default", "linear")


def export(
    model: str | SentenceTransformer | MultiVectorEncoder,
    folder: str | Path,
    *,
    trust_remote_code: bool = False,
) -> list[str]:
    """Write an extended model as a plain sentence-transformers folder.

    Args:
        model: a name, a folder of ours, or a loaded extended model, which stays as it is.
        folder: must be empty or not exist.
        trust_remote_code: run the base repository's own model code.

    Returns:
        One sentence for each thing that the plain checkpoint does not do as ours does; they stand in its
        model card too.

    Raises:
        MisfitError: if a plain checkpoint would be another method.
        InputError: if the folder has something in it, or the model is not an extended one.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"the folder to export to must be empty or not exist, got {folder}.")
    source = copy.deepcopy(model) if isinstance(model, (SentenceTransformer, MultiVectorEncoder)) else load(
        model, device="cpu", trust_remote_code=trust_remote_code
    )  # fmt: skip
    first: Any = source[0]
    strategy: Strategy | None = getattr(first, "strategy", None)
    if strategy is None:
        raise InputError("only an extended model can be exported: extend it first.")
    if not isinstance(source, SentenceTransformer):
        raise MisfitError(
            "several vectors a document cannot be a plain checkpoint: they are pooled by modules of ours; use "
            "save_pretrained."
        )
    inner = first.model
    state = inner.state_dict()
    if strategy.key() != "none":
        plain = _plain_form(first.family, strategy)
        if isinstance(first.family, Absolute):
            _write_table(first.family, inner, strategy, state)
        else:
            _write_rope(inner.config, plain(strategy, _rope_of(inner.config)))
            lift_window(inner.config, strategy)
    lost = _lost(first.family, strategy)
    if _chosen_by_batch(first.family, inner.config):
        lost.append(
            "frequencies by each document's own length: transformers chooses those of a whole batch by its "
            "longest input."
        )
    if not isinstance(first.family, Absolute):
        _take_longer_inputs(first.family, inner.config, strategy, state)
    with tempfile.TemporaryDirectory() as temporary:
        inner.save_pretrained(temporary, state_dict=state)
        first.tokenizer.model_max_length = strategy.target_len
        first.tokenizer.save_pretrained(temporary)
        stock = Transformer.load(temporary, trust_remote_code=trust_remote_code)
        stock.max_seq_length = strategy.target_len
        modules = [stock, *list(source)[1:]]
        result = SentenceTransformer(modules=modules, device="cpu", **settings_of(source))
        result.save_pretrained(str(folder), create_model_card=False)
    _write_card(folder, source, strategy, lost)
    return lost


def _refuse(family: Any, strategy: Strategy, reason: str) -> MisfitError:
    return MisfitError(f"{strategy.key()} on {family.name} positions cannot be a plain checkpoint: {reason}.")


def _plain_form(family: Any, strategy: Strategy) -> Callable[[Strategy, dict[str, Any]], dict[str, Any]]:
    """How the strategy is written into a configuration; refuses what would be another method."""
    key = strategy.key()
    if isinstance(family, Absolute):
        if "windows" in strategy.hooks():
            raise _refuse(family, strategy, "it cuts windows while it runs; use pi, ntk or rp")
        if key == "gp" and strategy.factor != "target":  # type: ignore[attr-defined]
            raise _refuse(
                family, strategy, "its groups depend on each document's length; use gp:factor=target"
            )
        return lambda _, rope: rope
    if not isinstance(family, Rotary):
        raise _refuse(family, strategy, "transformers has no setting for it; use save_pretrained")
    if key not in _ROPE:
        known = ", ".join(_ROPE)
        raise _refuse(
            family, strategy, f"it acts on each document while it runs; use {known}, or save_pretrained"
        )
    return _ROPE[key]


def _rope_of(config: PretrainedConfig) -> dict[str, Any]:
    rope = config.rope_parameters
    return dict(rope.get("full_attention", rope))


def _write_rope(config: PretrainedConfig, rope: dict[str, Any]) -> None:
    if "full_attention" in config.rope_parameters:
        config.rope_parameters = {**config.rope_parameters, "full_attention": rope}
    else:
        config.rope_parameters = rope


def _chosen_by_batch(family: Any, config: PretrainedConfig) -> bool:
    return isinstance(family, Rotary) and _rope_of(config).get("rope_type") == "longrope"


def _take_longer_inputs(
    family: Any, config: PretrainedConfig, strategy: Strategy, state: dict[str, Any]
) -> None:
    """Say that inputs may be as long as the target, since sentence-transformers cuts them at what is said.

    Raises:
        MisfitError: if more than the limit hangs on the number.
    """
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 1 or limit >= strategy.target_len:
        return
    rope = _rope_of(config) if isinstance(family, Rotary) else {}
    kind = rope.get("rope_type", "default")
    if kind == "dynamic" or (kind in ("yarn", "longrope") and rope.get("factor") is None):
        raise _refuse(
            family, strategy, f"its rope scaling of type {kind} is made for at most {limit} tokens; use "
            f"@{limit} or less, or save_pretrained"
        )  # fmt: skip
    if isinstance(family, Opaque):
        raise _refuse(
            family,
            strategy,
            f"its files limit inputs to {limit} tokens; use @{limit} or less, or save_pretrained",
        )
    config.max_position_embeddings = strategy.target_len
    # RoFormer computes its table anew at the new length
    state.pop("encoder.embed_positions.weight", None)


def _stackable(strategy: Strategy, rope: dict[str, Any]) -> None:
    kind = rope.get("rope_type", "default")
    if kind not in _STACKABLE:
        raise MisfitError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers; "
            "use save_pretrained."
        )


def _rope_ntk(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_theta": rope["rope_theta"] * strategy.rope_factor}


def _rope_pi(strategy: Strategy, rope: dict[str, Any]) -> dict[str, Any]:
    _stackable(strategy, rope)
    return {**rope, "rope_type": "linear", "factor": float(rope.get("factor") or 1.0) * strategy.scale}


def _rope_yarn(strategy: Any, rope: dict[str, Any]) -> dict[str, Any]:
    kind = rope.get("rope_type", "default")
    if kind != "default" and not (kind == "linear" and rope.get("factor", 1.0) == 1):
        raise MisfitError(
            f"{strategy.key()} on top of rope scaling of type {kind} has no setting in transformers, which would "
            "drop the base's own; use save_pretrained, or export ntk or pi."
        )
    # the checkpoint is the model with logn=off, which has YaRN's own temperature
    unscaled = dataclasses.replace(strategy, logn=False)
    return {
        **rope,
        "rope_type": "yarn",
        "factor": strategy.stretch,
        "original_max_position_embeddings": strategy.trained_len,
        "beta_fast": strategy.beta_fast,
        "beta_slow": strategy.beta_slow,
        "attention_factor": float(unscaled.rotary_scale(torch.tensor(strategy.target_len))),
    }


#: Strategy -> its rope parameters, made of the base's.
_ROPE: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "ntk": _rope_ntk,
    "pi": _rope_pi,
    "yarn": _rope_yarn,
}


def _write_table(family: Absolute, inner: Any, strategy: Strategy, state: dict[str, Any]) -> None:
    """One row a position, as a long document looks them up."""
    key = next(name for name in state if name.endswith("position_embeddings.weight"))
    table, first = state[key], family.first_row
    p, n = torch.arange(strategy.target_len), torch.tensor(strategy.target_len)
    rows = strategy.table_rows(p, n) if family.has_table else strategy.position_ids(p, n)
    state[key] = torch.cat([table[:first], table[first + rows.to(table.device)]])
    inner.config.max_position_embeddings = len(state[key])


def _lost(family: Any, strategy: Strategy) -> list[str]:
    lo, lost = strategy.trained_len, []
    if strategy.key() == "none":
        changed = False
    else:
        # absolute rp reads the same rows at every length
        keeps = getattr(strategy, "short", "keep" if strategy.key() != "rp" else "scale") == "keep"
        changed = keeps and strategy.key() != "gp"
        if isinstance(family, Absolute) and strategy.key() == "ntk":
            changed = True
    if changed:
        lost.append(
            f"inputs of at most {lo} tokens are extended like longer ones, where the extended model "
            "gives them the base model's embedding."
        )
    if strategy.logn and strategy.target_len > lo:
        lost.append(
            f"attention scaling of inputs beyond {lo} tokens: the checkpoint is the model with logn=off."
        )
    return lost


def _write_card(folder: Path, source: SentenceTransformer, strategy: Strategy, lost: list[str]) -> None:
    data = source.model_card_data
    base = data.base_model
    lines = [
        "---",
        "library_name: sentence-transformers",
        *([f"base_model: {base}"] if base and not base.startswith("local/") else []),
        "tags: [sentence-transformers, sentence-similarity, feature-extraction]",
        "---",
        "",
        f"# {data.model_name}",
        "",
        f"`{base}` for inputs of up to {strategy.target_len} tokens, exported by mteb-longembed as a plain "
        "sentence-transformers checkpoint.",
        "",
        *(["What the plain checkpoint does not do as the extended model does:", ""] if lost else []),
        *(f"- {sentence}" for sentence in lost),
        "",
    ]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")
