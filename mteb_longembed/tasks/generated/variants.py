"""The generated tasks' variants by name, such as `LongEmbedPasskey-seed7-docs200-depth0.5`."""

import re
from contextlib import suppress
from typing import TypeVar

from mteb.abstasks import AbsTask

from mteb_longembed.errors import InputError
from mteb_longembed.tasks.generated.needle import PARAPHRASE, LongEmbedNeedle
from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.tasks.generated.synthetic import SyntheticRetrieval

T = TypeVar("T")

_TASKS = {task.metadata.name: task for task in (LongEmbedPasskey, LongEmbedNeedle)}
_NAME = re.compile(
    rf"(?P<task>{'|'.join(_TASKS)})(?=-)"
    rf"(?:(?<={LongEmbedNeedle.metadata.name})-(?P<kind>{PARAPHRASE}))?"
    r"(?:-seed(?P<seed>\d{1,18}))?(?:-docs(?P<n_documents>\d{1,9}))?(?:-depth(?P<depth>\d(?:\.\d{1,9})?))?"
    r"(?:-queries(?P<n_queries>\d{1,9}))?"
)


def find_variant(name: str) -> type[SyntheticRetrieval] | None:
    """Return the task class of a variant's name, None for other names.

    Raises:
        InputError: the variant has a value outside its range.

    >>> find_variant("LongEmbedPasskey-seed7-depth0.5")().metadata.name
    'LongEmbedPasskey-seed7-depth0.5'
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    settings = {key: value for key, value in match.groupdict().items() if value is not None}
    task = _TASKS[settings.pop("task")]
    return type(task.variant(**settings))


class TaskRegistry(dict[str, type[AbsTask]]):
    """mteb's registry of task classes, which also resolves the names of variants.

    Iteration yields only the tasks that mteb lists. There are too many variants to list: each is created on request.
    """

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def __missing__(self, name: str) -> type[SyntheticRetrieval]:
        with suppress(InputError):  # a ValueError, and mteb ignores a task that raises one
            variant = find_variant(name)
            if variant is not None:
                return variant
        raise KeyError(name)

    def get(self, name: str, default: T | None = None) -> type[AbsTask] | T | None:  # type: ignore[override]
        """Return the task of a name, as `dict.get` does."""
        try:
            return self[name]
        except KeyError:
            return default
