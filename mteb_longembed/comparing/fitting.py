"""Which strategies fit a model, with the best measured score first: what `mteb-longembed list fit MODEL` prints."""

from __future__ import annotations

import json
from importlib.resources import files
from statistics import fmean

from mteb_longembed.encoders.checkpoints.opening import open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import InputError

#: A score with its interval, such as `29.0 (27–31)`, by the key of a strategy; `base` is the base.
Scores = dict[str, str]


def fitting(base: str) -> str:
    """Lines for people: the strategies that fit, with the best measured score first, and those that do not fit.

    Args:
        base: an alias, a hub id or a folder. What was measured is of other models with positions of the same kind.
    """
    base = ModelSpec.parse(base).base
    model = open_checkpoint(ModelSpec(base))
    family = model.family.name
    length = model.strategy.trained_len
    names = {key: key for key in STRATEGIES}
    names["none"] = f"none@{Strategy.default_target_len(length)}"  # plain extrapolation
    fit = []
    incompatible = []
    for key in STRATEGIES:
        try:
            open_checkpoint(ModelSpec.parse(f"{base}+{names[key]}"))
            fit.append(key)
        except InputError:
            incompatible.append(names[key])
    evidence = json.loads((files("mteb_longembed.comparing") / "evidence.json").read_text(encoding="utf-8"))
    measured = {name: one for name, one in evidence["models"].items() if one["positions"] == family}
    fit.sort(key=lambda key: -_mean_score(list(measured.values()), key))
    lines = [f"{model.name}: {family} positions, trained on {length:,} tokens. To try, in this order:"]
    for key in fit:
        scores = ", ".join(one[key] for one in measured.values() if key in one)
        lines.append(f"  {base}+{names[key]:<12}{scores or 'not measured'}")
    lines.append(f"Does not fit: {', '.join(incompatible) or 'nothing'}.")
    if model.pooling == "mean":
        lines.append(
            f"More than any of these gains {base}+pcw@32k:vectors=window,weights=sif (docs: corpus weights)."
        )
    note = "We measured no model with such positions."
    if measured:
        bases = " and ".join(one["base"] for one in measured.values())
        note = (
            f"Measured on {' and '.join(measured)}, not on your model ({evidence['measured']}; without a strategy "
            f"{bases})."
        )
    lines.append(f"{note} To measure yours: `mteb-longembed compare {base} -t TASK`.")
    return "\n".join(lines)


def _mean_score(measured: list[Scores], key: str) -> float:
    """The mean of the scores that models have with a strategy; below all scores if there is none."""
    scores = [float(one[key].partition(" ")[0]) for one in measured if key in one]
    if not scores:
        return -1.0
    return fmean(scores)
