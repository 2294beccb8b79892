"""Candidates that provably score as their base does, because every document fits into what the base was trained on."""

from collections.abc import Sequence

from mteb_longembed.encoders.positions import ROTARY, positions_of

from .candidates import Candidate


def equals_base(candidate: Candidate, longest: int) -> bool:
    """Return whether a candidate gives every input of at most `longest` tokens the vector of its base.

    It has one vector for each document, or for each window, of which there is then one; and no search settings.
    """
    resolved = candidate.resolved
    if resolved is None or candidate.is_base or candidate.is_named or candidate.search:
        return False
    if resolved.vectors not in (None, "window") or resolved.base.family != "dense":
        return False
    rotary = positions_of(resolved.base.config) is ROTARY
    return longest <= min(resolved.strategy.unchanged_len(rotary=rotary), resolved.strategy.trained_len)


def without_equals(candidates: Sequence[Candidate], longest: int | None) -> tuple[list[Candidate], list[str]]:
    """Return the candidates of a base that may differ from it, and a note on those left out."""
    if longest is None or not any(one.is_base for one in candidates):
        return list(candidates), []
    equal = [one for one in candidates if equals_base(one, longest)]
    if not equal:
        return list(candidates), []
    names = ", ".join(one.id for one in equal)
    verb = "equals" if len(equal) == 1 else "equal"
    note = (
        f"{names} {verb} the base on these documents, the longest of which has {longest:,} tokens with its prompt: "
        "left out."
    )
    return [one for one in candidates if one not in equal], [note]
