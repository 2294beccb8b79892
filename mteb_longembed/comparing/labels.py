"""What tables and sentences call candidates: as much of a name as tells it from the others."""

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from .candidates import Candidate

#: A name of at most so many characters stays as it is: it fits on a line beside its numbers.
WHOLE = 20


def short_names(candidates: Sequence[Candidate]) -> dict[str, str]:
    """What tables call candidates, by their ids.

    With one base that is `base` and what follows it, as `+gp@1024`; with several, the last parts of each stand before
    it, as many as tell them apart. In a name that is still too long, a length or a setting is shortened if no other
    candidate has another value of it: a word that is no key stays alone (`softmax`), of any other value the key
    (`whiten`).
    """
    ends = _ends(candidates)
    values = _values(candidates)
    labels = {candidate.id: _label(candidate, ends, values) for candidate in candidates}
    if len(set(labels.values())) < len(labels):
        return {name: name for name in labels}
    return labels


def legend(candidates: Sequence[Candidate]) -> str:
    """What is short in the names of candidates, in one sentence; empty if nothing is."""
    ends = _ends(candidates)
    values = _values(candidates)
    labels = short_names(candidates)
    meaning = {ends[one.base]: one.base for one in candidates if one.base}
    for candidate in candidates:
        if labels[candidate.id] != _whole_label(candidate, ends):
            meaning |= dict(_parts(candidate, values))
    texts = [f"{name} is {whole}" for name, whole in meaning.items() if name != whole]
    if not texts:
        return ""
    return f"Short names: {', '.join(texts)}."


def _ends(candidates: Sequence[Candidate]) -> dict[str, str]:
    bases = [candidate.base for candidate in candidates if candidate.base]
    return short_ends(
        list(dict.fromkeys([*bases, *(one.neighbours for one in candidates if one.neighbours)]))
    )


def _label(candidate: Candidate, ends: Mapping[str, str], values: Mapping[str, set[Any]]) -> str:
    label = _whole_label(candidate, ends)
    parts = _parts(candidate, values)
    if len(label) <= WHOLE or not parts:
        return label
    (strategy, _), *settings = parts
    end = _shown_base(candidate, ends)
    return f"{end}{strategy}:{','.join(short for short, _ in settings)}".rstrip(":")


def _whole_label(candidate: Candidate, ends: Mapping[str, str]) -> str:
    """The name behind what is shown of its base."""
    end = _shown_base(candidate, ends)
    if candidate.chunker_name and candidate.kind == "fusion":
        return f"{end}+{candidate.chunker_name}:fuse=words"
    if candidate.chunker_name:
        return f"{end}+{candidate.chunker_name}"
    if candidate.is_base:
        return end or "base"
    label = end + candidate.name.removeprefix(candidate.base)
    if candidate.neighbours:
        label = label.replace(candidate.neighbours, ends[candidate.neighbours])
    return label


def _shown_base(candidate: Candidate, ends: Mapping[str, str]) -> str:
    """The end of its base; nothing if all have this base."""
    if len(ends) < 2:
        return ""
    return ends.get(candidate.base, "")


def _experiment(candidate: Candidate) -> dict[str, Any]:
    """The strategy, the length and the settings of a candidate that has no other name than that of these."""
    if candidate.kind == "bm25":
        return {"strategy": "bm25", **candidate.words.given}
    if candidate.parts is None or candidate.chunker_name or candidate.is_base:
        return {}
    spec, settings = candidate.parts
    return {**spec.experiment, **settings.given, "strategy": f"+{spec.strategy}"}


def _values(candidates: Sequence[Candidate]) -> dict[str, set[Any]]:
    """All values of each setting, and all lengths of each strategy."""
    values: dict[str, set[Any]] = {}
    for experiment in map(_experiment, candidates):
        if experiment:
            values.setdefault(experiment["strategy"], set()).add(experiment.get("target_len"))
        for key, value in experiment.items():
            values.setdefault(key, set()).add(value)
    return values


def _parts(candidate: Candidate, values: Mapping[str, set[Any]]) -> list[tuple[str, str]]:
    """The strategy and each setting, short and whole; nothing for a name that we do not read."""
    experiment = _experiment(candidate)
    if not experiment:
        return []
    short = whole = experiment.pop("strategy")
    target = experiment.pop("target_len", None)
    if target is not None:
        whole += f"@{target}"
    if len(values[short]) > 1:
        short = whole
    parts = [(short, whole)]
    for key, value in sorted(experiment.items()):
        short = whole = f"{key}={value}"
        if len(values[key]) == 1:
            short = key
            if str(value).isidentifier() and value not in values:
                short = value
        parts.append((short, whole))
    return parts


def short_ends(models: Sequence[str]) -> dict[str, str]:
    """The last parts of each path or id, as many as tell all of them apart.

    >>> short_ends(["/one/run/best", "/two/run/best"])
    {'/one/run/best': 'one/run/best', '/two/run/best': 'two/run/best'}
    """
    parts = {model: [part for part in re.split(r"[/\\]", model) if part] for model in models}
    ends: dict[str, str] = {}
    for n in range(1, max(map(len, parts.values()), default=0) + 1):
        ends = {model: "/".join(of_model[-n:]) for model, of_model in parts.items()}
        if len(set(ends.values())) == len(ends):
            return ends
    return {model: model for model in models}


def on_lines(text: str, width: int = 30) -> str:
    """A text on short lines: it is broken between words, and names between their parts; inside one if it is longer.

    >>> print(on_lines("+pcw@512:vectors=window,weights=sif"))
    +pcw@512:vectors=window,
    weights=sif
    """
    lines = [""]
    for part in re.split(r"(?<=[:,/ ])(?=\S)|(?<=\S)(?=[+])", text):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        first, *longer = wrap(part, width, drop_whitespace=False) or [""]
        lines[-1] += first
        lines += longer
    return "\n".join(map(str.rstrip, lines))
