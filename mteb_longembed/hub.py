"""The Hugging Face hub: whether it answers, files of repositories, and its errors as one sentence.

Also `silence`, because the hub's libraries show progress bars and messages of their own.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants, get_session, hf_hub_download, utils
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    EntryNotFoundError,
    FileMetadataError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name

from mteb_longembed.errors import HubError

#: A file, repository or revision that the hub does not have.
_MISSING = (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)


def hub_answers() -> bool:
    """Return whether the hub answers within `HF_HUB_ETAG_TIMEOUT` seconds. A process checks once a minute.

    Differs: `huggingface_hub` tries up to six times for each file, for 23 seconds in all.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    return _ask(constants.ENDPOINT, int(time.monotonic() // 60))


@functools.lru_cache(maxsize=1)
def _ask(endpoint: str, minute: int) -> bool:
    try:
        get_session().head(endpoint, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # look-up, proxy, certificate, time-out: HTTP libraries have no common class of errors
        return False
    return True


@contextlib.contextmanager
def offline_without_hub() -> Iterator[None]:
    """Let libraries read only their caches inside the context if the hub does not answer: one attempt in all.

    Without this, `huggingface_hub` tries six times for each file, and a model has a dozen.
    """
    if hub_answers() or constants.HF_HUB_OFFLINE:
        yield
        return
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = False


def find(repository: str, name: str, revision: str | None = None, repo_type: str = "model") -> Path | None:
    """Return the path of a repository's file; None if it has no such file. Without the hub, only the cache is searched.

    Raises:
        HubError: if there is no such repository, the hub refuses, or it cannot be reached and the cache lacks the file.
    """
    try:
        with offline_without_hub(), translate_hub_errors():
            path = hf_hub_download(
                repository,
                name,
                revision=revision,
                repo_type=repo_type,
                local_files_only=constants.HF_HUB_OFFLINE,
            )
        return Path(path)
    except LocalEntryNotFoundError as error:
        # the cache has this revision, so a file that it lacks is not in the repository
        kept = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repository, repo_type=repo_type))
        commit_or_branch = revision or "main"
        if (kept / "snapshots" / commit_or_branch).is_dir() or (kept / "refs" / commit_or_branch).is_file():
            return None
        raise unreachable(repository) from error
    except EntryNotFoundError:
        return None
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        at = f" at revision {revision}" if revision else ""
        raise HubError(
            f"the hub has no readable {repo_type} {repository!r}{at}: check the name, and HF_TOKEN if it is private or "
            "gated."
        ) from error


@contextlib.contextmanager
def translate_hub_errors() -> Iterator[None]:
    """Report any error of a refused or broken connection to the hub in this context as one sentence.

    Raises:
        HubError: if the hub was reached but returned no file.
    """
    try:
        yield
    except (OSError, HTTPError) as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        reason = " ".join(str(refusal).split())[:200].rstrip(".:")
        raise HubError(
            f"the hub at {constants.ENDPOINT} gave no file ({reason or type(refusal).__name__}): try again later."
        ) from error


def _refusal(error: BaseException) -> BaseException | None:
    """Return the error of the hub, or of the connection to it, that caused a library's error.

    None for errors of this machine, and for a missing file, repository or revision, which callers handle.
    """
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        return None  # such as a full disk
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (HfHubHTTPError, FileMetadataError, HTTPError)):
            return None if isinstance(cause, _MISSING) else cause
        cause = cause.__cause__ or cause.__context__
    return None


def unreachable(path: str) -> HubError:
    """Return the error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only what was "
        "downloaded before (HF_HOME) and local folders work offline."
    )


@contextlib.contextmanager
def silence(*loggers: str) -> Iterator[None]:
    """Hide progress bars of other libraries, and warnings of mteb and of these loggers, inside the context."""
    import datasets
    from transformers.utils import logging as models

    with contextlib.ExitStack() as after:
        for name in ("mteb", *loggers):
            logger = logging.getLogger(name)
            after.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        for bars in (datasets, utils):
            if bars.are_progress_bars_disabled():
                after.callback(bars.disable_progress_bars)
            else:
                after.callback(bars.enable_progress_bars)
        if models.is_progress_bar_enabled():
            after.callback(models.enable_progress_bar)
        datasets.disable_progress_bars()
        models.disable_progress_bar()  # also disables the hub's, so it is restored before the hub's
        yield
