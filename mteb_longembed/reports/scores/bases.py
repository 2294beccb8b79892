"""Lines grouped by base model: the base itself, and the base with each strategy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mteb_longembed.reports.public.published import trained_len
from mteb_longembed.reports.scores.results import Model
from mteb_longembed.reports.scores.scoreboard import Line

_OURS = "mteb-longembed/"
# The paper's order; other strategies come after these.
_ORDER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")


@dataclass(frozen=True)
class BaseGroup:
    """One base model on one kind of data.

    Args:
        base: Its hub id.
        data: The kind of Passkey and Needle data.
        line: The base model's own scores, None if there are none.
        variants: The extended models, sorted by target length and strategy.
    """

    base: str
    data: str
    line: Line | None
    variants: tuple[Line, ...]


def group_by_base(lines: Iterable[Line]) -> list[BaseGroup]:
    """Group lines; bases without any extended model are left out."""
    groups: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line.data, line.model.name.base].append(line)
    found = []
    for (data, base), members in groups.items():
        own = _base_line(base, members)
        variants = sorted((line for line in members if line is not own), key=_sort_key)
        # Names of extended models always have a target length; mteb's name of the base has none.
        if any(line.model.name.target_len is not None for line in variants):
            found.append(BaseGroup(base, data, own, tuple(variants)))
    return found


def _base_line(base: str, members: Sequence[Line]) -> Line | None:
    """The base at its trained length: our result (`+none@512`), or else mteb's own entry.

    `+none@4096` of a rotary model with a trained length of 512 tokens is plain extrapolation, so it is not the base.
    """
    trained = trained_len(base)
    plain = [line for line in members if line.model.name.is_base]
    ours = [line for line in plain if line.model.name.target_len is not None]
    if trained is not None:
        ours = [line for line in ours if line.model.name.target_len == trained]
    ours.sort(key=lambda line: line.model.name.target_len or 0)
    mtebs = [line for line in plain if line.model.name.target_len is None]
    return next(iter(ours + mtebs), None)


def strategy_rank(strategy: str) -> tuple[int, str]:
    """The paper's order of strategies, others after them by name."""
    return (_ORDER.index(strategy) if strategy in _ORDER else len(_ORDER), strategy)


def _sort_key(line: Line) -> tuple[int, tuple[int, str], str]:
    name = line.model.name
    return (name.target_len or 0, strategy_rank(name.strategy), name.params)


def labels(models: Iterable[Model]) -> dict[Model, str]:
    """One unique label for each model: its name, and also its revision if the name has several revisions."""
    unique = list(dict.fromkeys(models))
    counts = Counter(model.name.full for model in unique)
    found = {}
    for model in unique:
        label = shortened(model.name.full)
        found[model] = f"{label} ({model.revision[:8]})" if counts[model.name.full] > 1 else label
    return found


def shortened(name: str) -> str:
    """A model's name without our own organisation (`mteb-longembed/`).

    >>> shortened("mteb-longembed/mini-rope+ntk@4096"), shortened("intfloat/e5-base-v2")
    ('mini-rope+ntk@4096', 'intfloat/e5-base-v2')
    """
    return name.removeprefix(_OURS)
