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
    return f"{base}+{strategy}@{target_len}{_written(settings)}"


def published_name(repository: str, settings: Mapping[str, object]) -> str:
    """The name of an extended model that has a repository of its own: the repository, and what search adds to it.

    Args:
        repository: hub id.
        settings: parameters that change search and no vector.

    >>> published_name("me/e5-base-se", {}), published_name("me/e5-base-se", {"center": "corpus"})
    ('me/e5-base-se', 'me/e5-base-se+none,center=corpus')
    """
    return f"{repository}+none{_written(settings)}" if settings else repository


def _written(settings: Mapping[str, object]) -> str:
    return "".join(f",{key}={spell(settings[key])}" for key in sorted(settings))


def default_target_len(strategy: str, trained_len: int) -> int:
    """The target length in tokens if a name gives none: 8 times the trained length, as in the paper.

    >>> default_target_len("pi", 512), default_target_len("none", 512)
    (4096, 512)
    """
    return trained_len if strategy == "none" else 8 * trained_len


def results_folder(name: str) -> str:
    """The folder in which mteb keeps the results of a model.

    >>> results_folder("intfloat/e5-base-v2+ntk@4096")
    'intfloat__e5-base-v2+ntk@4096'
    """
    return name.replace("/", "__").replace(" ", "_")
