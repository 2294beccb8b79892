"""Which strategies fit a model, with the best measured score first: what `mteb-longembed list fit MODEL` prints."""

from __future__ import annotations

import json
from importlib.resources import files

from mteb_longembed.encoders.bases.opening import open_checkpoint
from mteb_longembed.encoders.bases.spec import ModelSpec
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import InputError


def fitting(base: str) -> str:
    """Lines for people: the strategies that fit, with the best measured score first, and those that do not fit.

    Args:
        base: an alias, a hub id or a folder. What was measured is of another model with positions of the same kind.
    """
    base = ModelSpec.parse(base).base
    model = open_checkpoint(ModelSpec(base))
    family = model.family.name
    evidence = json.loads((files("mteb_longembed.comparing") / "evidence.json").read_text(encoding="utf-8"))
    measured: dict[str, str] = evidence.get(family, {})
    fit = []
    incompatible = []
    length = model.strategy.trained_len
    names = {key: key for key in STRATEGIES}
    names["none"] = f"none@{Strategy.default_target_len(length)}"  # plain extrapolation
    for key in STRATEGIES:
        try:
            open_checkpoint(ModelSpec.parse(f"{base}+{names[key]}"))
            fit.append(key)
        except InputError:
            incompatible.append(names[key])
    fit.sort(key=lambda key: -_measured_score(measured.get(key, "")))
    lines = [f"{model.name}: {family} positions, trained on {length:,} tokens. To try, in this order:"]
    lines += [f"  {base}+{names[key]:<12}{measured.get(key, 'not measured')}" for key in fit]
    lines.append(f"Does not fit: {', '.join(incompatible) or 'nothing'}.")
    evidence_note = "We measured no model with such positions."
    if measured:
        evidence_note = (
            f"Measured on {measured['model']}, not on your model ({measured['measured']}; its base has "
            f"{measured['base']})."
        )
    lines.append(f"{evidence_note} To measure yours: `mteb-longembed compare {base} -t TASK`.")
    return "\n".join(lines)


def _measured_score(measured: str) -> float:
    """The score at the beginning of a text such as `61.2 on QMSum`; below all scores if there is none."""
    number = measured.partition(" ")[0]
    if number[:1].isdigit():
        return float(number)
    return -1.0
