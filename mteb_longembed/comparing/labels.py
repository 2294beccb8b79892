"""Short names of candidates, for tables."""

import re
from collections.abc import Sequence

from .candidates import Candidate


def short_names(candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return the table labels of candidates by id: what follows the base, such as `+gp@1024`; `base` for itself.

    With several bases each label begins with the last part of its base. If two labels are equal, all are ids.
    """
    n_models = len({one.base or one.expand for one in candidates} - {""})
    labels = {}
    for one in candidates:
        end = ""
        base = one.base or one.expand
        if n_models > 1:
            end = last_part(base)
        label = end + one.name.removeprefix(base)
        if one.is_base:
            label = end or "base"
        labels[one.id] = label
    if len(set(labels.values())) < len(labels):
        return dict(zip(labels, labels, strict=True))
    return labels


def last_part(model: str) -> str:
    """Return the last part of a path or hub id."""
    return re.split(r"[/\\]", model.rstrip("/\\"))[-1]
