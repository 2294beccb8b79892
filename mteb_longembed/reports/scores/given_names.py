"""Model names as a user types them, found among the names in the results."""

from __future__ import annotations

from collections.abc import Collection

from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.names.grammar import StoredName, split_model_name
from mteb_longembed.names.zoo import ZOO
from mteb_longembed.reports.scores.bases import shortened


def given_name(kind: str, typed: str, known: Collection[str]) -> str:
    """The known name that the user means.

    The typed name may leave out our organisation, use an alias of the base, and leave out the target length and the
    parameters.

    Args:
        kind: The kind of the name, for the error message.
        typed: What the user gave, such as `e5-base+pi`.
        known: The names to choose from.

    Raises:
        UnknownNameError: If no name fits.
        InputError: If more than one name fits.

    >>> given_name("model", "e5-base+pi", ["intfloat/e5-base-v2+pi@4096", "intfloat/e5-base-v2+ntk@4096"])
    'intfloat/e5-base-v2+pi@4096'
    """
    if typed in known:
        return typed
    wanted = split_model_name(typed)
    fits = sorted(name for name in known if _fits(wanted, split_model_name(name)))
    if not fits:
        raise UnknownNameError(kind, typed, map(shortened, known))
    if len(fits) > 1:
        raise InputError(
            f"a name must fit only one model, {typed!r} fits {', '.join(map(shortened, fits))}: give one of these."
        )
    return fits[0]


def _fits(wanted: StoredName, name: StoredName) -> bool:
    bases = {wanted.base, ZOO[wanted.base].hub_id} if wanted.base in ZOO else {wanted.base}
    return (
        bool(bases & {name.base, shortened(name.base)})
        and wanted.strategy == name.strategy
        and wanted.target_len in (None, name.target_len)
        and (not wanted.params or sorted(wanted.params.split(",")) == sorted(name.params.split(",")))
    )
