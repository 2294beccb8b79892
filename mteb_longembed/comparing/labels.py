"""What tables and sentences call candidates: their names without what all have in common."""

import re
from collections.abc import Sequence
from textwrap import wrap

from .candidates import Candidate


def short_names(candidates: Sequence[Candidate]) -> dict[str, str]:
    """What tables call candidates, by their ids: what follows the base, such as `+gp@1024`; `base` for itself.

    With several bases the last parts of each stand before it, as many as tell them apart.
    """
    ends = _ends(candidates)
    labels = {candidate.id: _label(candidate, ends) for candidate in candidates}
    if len(set(labels.values())) < len(labels):
        return dict(zip(labels, labels, strict=True))
    return labels


def legend(candidates: Sequence[Candidate]) -> str:
    """What the short names of bases stand for, in one sentence; empty if none is short."""
    texts = [f"{end} is {model}" for model, end in _ends(candidates).items() if end != model]
    if not texts:
        return ""
    return f"Short names: {', '.join(texts)}."


def _ends(candidates: Sequence[Candidate]) -> dict[str, str]:
    """The bases and the models of neighbours, each with its last parts."""
    models: dict[str, None] = {}
    for candidate in candidates:
        models |= dict.fromkeys(filter(None, [candidate.base, candidate.neighbours]))
    return short_ends(list(models))


def _label(candidate: Candidate, ends: dict[str, str]) -> str:
    end = ""
    if len(ends) > 1:
        end = ends.get(candidate.base, "")
    if candidate.chunker is not None and candidate.kind == "fusion":
        return f"{end}+{candidate.chunker.name}:fuse=words"
    if candidate.chunker is not None:
        return f"{end}+{candidate.chunker.name}"
    if candidate.is_base:
        return end or "base"
    label = end + candidate.name.removeprefix(candidate.base)
    if candidate.neighbours:
        label = label.replace(candidate.neighbours, ends[candidate.neighbours])
    return label


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
    return dict(zip(models, models, strict=True))


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
