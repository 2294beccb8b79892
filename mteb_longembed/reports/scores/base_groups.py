"""Models by base: the base itself, the base with each strategy, and labels."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mteb_longembed.reports.scores.published_numbers import trained_len
from mteb_longembed.reports.scores.results import Model
from mteb_longembed.reports.scores.scoreboard import Line

_OURS = "mteb-longembed/"
# The paper's order; other strategies come after these.
_ORDER = ("none", "pcw", "gp", "rp", "pi", "ntk", "se")


@dataclass(frozen=True)
class BaseGroup:
    """One commit of a base model on one kind of data."""

    base: str  # hub id
    data: str
    line: Line | None  # the base model's own scores
    variants: tuple[Line, ...]  # the extended models of one commit, sorted by target length and strategy
    commit: str = ""  # its first characters, if the results have several

    @property
    def label(self) -> str:
        """The base's name, and its commit if there are several."""
        label = shortened(self.base)
        if self.commit:
            label += f" ({self.commit})"
        return label

    @property
    def key(self) -> str:
        """The same for keys of tables and figures."""
        if self.commit:
            return f"{self.base}-{self.commit}"
        return self.base

    @property
    def warning(self) -> str:
        """A sentence, if the base's scores are those of another commit than the variants'."""
        if self.line is None or _commit(self.line) == _commit(self.variants[0]):
            return ""
        return (
            f"The base's scores are of revision {self.line.model.revision[:12]}, the others' of "
            f"{self.variants[0].model.revision[:12]}: differences may also come from the other revision."
        )

    def name(self, line: Line) -> str:
        """A variant such as `+ntk:logn=off`, with its revision if it would not be unique."""
        name = line.model.name
        same = [v.model for v in self.variants if v.model.name.full == name.full]
        return name.variant + labels(same)[line.model].removeprefix(shortened(name.full))


def group_by_base(lines: Iterable[Line]) -> list[BaseGroup]:
    """Group lines; bases without any extended model are left out.

    An extended model is compared with the base of its own commit. Only if there is none, another commit is taken, and
    the group has a warning.
    """
    members: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        members[line.data, line.model.name.base].append(line)
    groups = []
    for (data, base), all_lines in members.items():
        # Names of extended models always have a target length; mteb's name of the base has none.
        ours = [line for line in all_lines if line.model.name.target_len is not None]
        mtebs = [line for line in all_lines if line.model.name.target_len is None]
        commits = list(dict.fromkeys(map(_commit, ours)))
        short_commits = _distinct(commits)
        for commit in commits:
            candidates = [line for line in ours + mtebs if _commit(line) == commit]
            base_line = _base_line(base, candidates) or _base_line(base, all_lines)
            variants = [line for line in ours if _commit(line) == commit and line is not base_line]
            if len(commits) == 1:
                variants += [line for line in mtebs if line is not base_line]
            if any(line.model.name.target_len is not None for line in variants):
                variants.sort(key=_sort_key)
                mark = ""
                if len(commits) > 1:
                    mark = short_commits[commit]
                groups.append(BaseGroup(base, data, base_line, tuple(variants), mark))
    return groups


def _commit(line: Line) -> str:
    """The base's commit; ours are followed by the version of the algorithms (`-le2`)."""
    return re.sub("-le[0-9]+$", "", line.model.revision)


def _base_line(base: str, members: Sequence[Line]) -> Line | None:
    """The base at its trained length: our result (`+none@512`), or else mteb's own entry.

    `+none@4096` of a rotary model with a trained length of 512 tokens is plain extrapolation, so it is not the base.
    """
    trained = trained_len(base)
    plain = [line for line in members if line.model.name.is_base]
    if trained is not None:
        plain = [line for line in plain if line.model.name.target_len in (trained, None)]
    return min(plain, key=lambda line: line.model.name.target_len or math.inf, default=None)


def strategy_rank(strategy: str) -> tuple[int, str]:
    """The paper's order of strategies, others after them by name."""
    if strategy in _ORDER:
        return _ORDER.index(strategy), strategy
    return len(_ORDER), strategy


def _sort_key(line: Line) -> tuple[int, tuple[int, str], str]:
    name = line.model.name
    return (name.target_len or 0, strategy_rank(name.strategy), name.params)


def labels(models: Iterable[Model]) -> dict[Model, str]:
    """One unique label for each model: its name, and also its revision if the name has several revisions."""
    by_name: dict[str, list[Model]] = defaultdict(list)
    for model in dict.fromkeys(models):
        by_name[model.name.full].append(model)
    by_model = {}
    for name, same in by_name.items():
        revisions = _distinct([model.revision for model in same])
        for model in same:
            by_model[model] = shortened(name)
            if len(same) > 1:
                by_model[model] += f" ({revisions[model.revision]})"
    return by_model


def _distinct(revisions: Sequence[str]) -> dict[str, str]:
    """A short form of each revision; different revisions have different forms.

    >>> _distinct(["0123456789-le1", "0123456789-le2"])
    {'0123456789-le1': '01234567...89-le1', '0123456789-le2': '01234567...89-le2'}
    """
    forms = [{r: r[:8] for r in revisions}, {r: f"{r[:8]}...{r[-6:]}" for r in revisions}]
    unchanged = {r: r for r in revisions}
    return next((form for form in forms if len(set(form.values())) == len(form)), unchanged)


def shortened(name: str) -> str:
    """A model's name without our own organisation (`mteb-longembed/`).

    >>> shortened("mteb-longembed/mini-rope+ntk@4096"), shortened("intfloat/e5-base-v2")
    ('mini-rope+ntk@4096', 'intfloat/e5-base-v2')
    """
    return name.removeprefix(_OURS)
