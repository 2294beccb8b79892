"""The small files of a model, in a folder or in a repository on the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from mteb_longembed.errors import HubError, ModelError
from mteb_longembed.hub import download

_REFUSED = (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError, HFValidationError)


def find_file(path: str, name: str, revision: str | None = None, *, optional: bool = False) -> Path | None:
    """A file of a folder or hub repository, as a path on this machine. None if there is no such file.

    Args:
        path: folder or hub id.
        name: path of the file in it.
        revision: commit, branch or tag on the hub.
        optional: whether None is also returned if the hub cannot be reached.

    Raises:
        HubError: if there is no such repository or revision, or the hub cannot be reached.
    """
    if Path(path).is_dir():
        file = Path(path, name)
        return file if file.is_file() else None
    try:
        return download(path, name, revision=revision)
    except LocalEntryNotFoundError as error:
        if optional:
            return None
        raise unreachable(path) from error
    except EntryNotFoundError:
        return None
    except _REFUSED as error:
        at = f" at revision {revision}" if revision else ""
        raise HubError(
            f"the hub has no readable model {path!r}{at}: check the name, and HF_TOKEN if it is "
            "private or gated."
        ) from error
    except (OfflineModeIsEnabled, HfHubHTTPError, OSError) as error:
        raise unreachable(path) from error


def reader(path: str, revision: str | None) -> Callable[..., Any]:
    """A function that reads one JSON file of a folder or hub repository. It returns None if there is no such file."""

    def read(name: str, optional: bool = False, kind: type = dict) -> Any:
        file = find_file(path, name, revision, optional=optional)
        if file is None:
            return None
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{name} of {path} cannot be read as JSON: {str(error)[:80]}.") from error
        if not isinstance(found, kind):
            wanted = "an object" if kind is dict else "a list"
            raise ModelError(f"{name} of {path} must hold {wanted}, got {str(found)[:80]!r}.")
        return found

    return read


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only models that "
        "were downloaded before (HF_HOME) and local folders work offline."
    )


def commit_of(path: str, revision: str | None, name: str = "config.json") -> str | None:
    """The commit that the cache has for a revision. It is the name of the snapshot's folder.

    Args:
        path: hub id.
        revision: commit, branch or tag.
        name: a file of the repository.
    """
    snapshot = download(path, name, revision=revision).parent.name
    return snapshot if re.fullmatch(r"[0-9a-f]{40}", snapshot) else revision
