"""Models by base: the base itself, and the base with each strategy."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .paper import trained_len
from .results import short_revision
from .scoreboard import Line

# The paper's order; other strategies come after these.
_ORDER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")


@dataclass(frozen=True)
class BaseGroup:
    """One commit of a base model on one kind of data."""

    label: str  # the base's name, with the commit if the results have several
    data: str
    line: Line | None  # the base's own scores, None if there are none of this commit
    variants: tuple[Line, ...]  # the extended models, sorted by target length and strategy

    def by_variant(self) -> dict[str, list[Line]]:
        """The extended models of each variant, sorted by target length; the variants in the paper's order."""
        members: dict[str, list[Line]] = {}
        for line in sorted(self.variants, key=lambda line: _strategy_rank(line.model.name.strategy)):
            if _is_extended(line):
                members.setdefault(line.variant, []).append(line)
        return members


def group_by_base(lines: Iterable[Line]) -> list[BaseGroup]:
    """Group lines; bases without any extended model are left out.

    An extended model is only compared with the base of its own commit.
    """
    members: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        # the revisions of our models are a commit and the version of the algorithms (`-le2`)
        commit = re.sub("-le[0-9]+$", "", line.model.revision)
        members[line.data, line.model.name.base, commit].append(line)
    extended = {key: same for key, same in members.items() if any(_is_extended(line) for line in same)}
    n_commits = Counter((data, base) for data, base, _ in extended)
    groups = []
    for (data, base, commit), same in extended.items():
        label = base
        if n_commits[data, base] > 1:
            label += f" ({short_revision(commit)})"
        base_line = _base_line(base, same)
        variants = sorted((line for line in same if line is not base_line), key=_sort_key)
        if variants:
            groups.append(BaseGroup(label, data, base_line, tuple(variants)))
    return groups


def _is_extended(line: Line) -> bool:
    """Whether a name has a target length; mteb's name of a base has none."""
    return line.model.name.target_len is not None


def _base_line(base: str, members: Sequence[Line]) -> Line | None:
    """The base at its trained length: our result (`+none@512`), or else mteb's own entry.

    `+none@4096` of a rotary model with a trained length of 512 tokens is plain extrapolation, so it is not the base.
    """
    trained = trained_len(base)
    plain = [line for line in members if line.model.name.is_base]
    if trained is not None:
        plain = [line for line in plain if line.model.name.target_len in (trained, None)]
    return min(plain, key=lambda line: line.model.name.target_len or math.inf, default=None)


def _strategy_rank(strategy: str) -> tuple[int, str]:
    """The paper's order of strategies, others after them by name."""
    if strategy in _ORDER:
        return _ORDER.index(strategy), strategy
    return len(_ORDER), strategy


def _sort_key(line: Line) -> tuple[int, tuple[int, str], str]:
    name = line.model.name
    return (name.target_len or 0, _strategy_rank(name.strategy), name.params)
