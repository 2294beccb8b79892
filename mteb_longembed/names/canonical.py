"""The canonical name: the one name under which the results of an extended model are stored."""

from __future__ import annotations

from collections.abc import Mapping

from .parameters import spell


def canonical_name(base: str, strategy: str, target_len: int, settings: Mapping[str, object]) -> str:
    """`<hub id>+<strategy>@<target>` and, sorted by name, the parameters that differ from their defaults.

    Args:
        base: hub id, or `local/NAME`.
        strategy: registry key.
        target_len: the target length: the longest input in tokens.
        settings: parameters whose values differ from their defaults for this base and these lengths.

    >>> canonical_name("intfloat/e5-base-v2", "ntk", 4096, {"sigma": 4.0})
    'intfloat/e5-base-v2+ntk@4096,sigma=4'
    """
    written = "".join(f",{key}={spell(settings[key])}" for key in sorted(settings))
    return f"{base}+{strategy}@{target_len}{written}"


def default_target_len(strategy: str, trained_len: int) -> int:
    """The target length in tokens if a name gives none: 8 times the trained length, as in the paper.

    >>> default_target_len("pi", 512), default_target_len("none", 512)
    (4096, 512)
    """
    return trained_len if strategy == "none" else 8 * trained_len
