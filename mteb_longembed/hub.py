"""Does the Hugging Face hub answer, and what? huggingface_hub's own errors become one sentence.

And `silence`, because the hub's libraries show bars and messages of their own.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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

#: The most seconds that a hub may ask to wait. huggingface_hub has no bound of its own.
LONGEST_WAIT = 30
#: What callers look for: a file or repository that is not there, and errors of this machine.
_NOT_THERE = (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)


def hub_answers() -> bool:
    """Whether the hub answers within `HF_HUB_ETAG_TIMEOUT` seconds. A process asks once a minute.

    Differs: `huggingface_hub` asks up to six times for each file, for 23 seconds in all.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    return _ask(constants.ENDPOINT, int(time.monotonic() // 60))


@functools.lru_cache(maxsize=1)
def _ask(endpoint: str, minute: int) -> bool:
    try:
        get_session().head(endpoint, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # look-up, proxy, certificate, time-out: HTTP libraries share no class of errors
        return False
    return True


def find(repository: str, name: str, revision: str | None = None, repo_type: str = "model") -> Path | None:
    """A file of a repository. None if the repository lacks it. If the hub does not answer, only the cache is asked.

    Raises:
        HubError: if there is no such repository, the hub refuses, or it cannot be reached and the cache lacks the file.
    """
    offline = not hub_answers()
    try:
        with translate_hub_errors():
            path = hf_hub_download(
                repository, name, revision=revision, repo_type=repo_type, local_files_only=offline
            )
        return Path(path)
    except HubError:  # which is an OSError too
        raise
    except LocalEntryNotFoundError as error:
        if _is_cached(repository, revision, repo_type):
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
    except OSError as error:  # of the network, or of huggingface_hub
        raise unreachable(repository) from error


def _is_cached(repository: str, revision: str | None, repo_type: str) -> bool:
    """Whether the cache has this revision, so that a file which it lacks is none of the repository's."""
    kept = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repository, repo_type=repo_type))
    revision = revision or "main"
    return (kept / "snapshots" / revision).is_dir() or (kept / "refs" / revision).is_file()


@contextlib.contextmanager
def translate_hub_errors() -> Iterator[None]:
    """Inside this context, a hub that refuses, breaks off or asks to wait long is one sentence.

    Raises:
        HubError: if the hub was reached and gave no file.
    """
    hooks = get_session().event_hooks["response"]
    hooks.append(_refuse_long_wait)
    try:
        yield
    except (OSError, HTTPError) as error:
        refused = _refusal(error)
        if refused is None:
            raise
        if isinstance(refused, HubError):
            raise refused from error
        words = " ".join(str(refused).split())[:200].rstrip(".:")
        raise HubError(
            f"the hub at {constants.ENDPOINT} gave no file ({words or type(refused).__name__}): try again later."
        ) from error
    finally:
        hooks.remove(_refuse_long_wait)


def _refuse_long_wait(response: Any) -> None:
    """Raise HubError for an answer after which huggingface_hub would sleep for longer than `LONGEST_WAIT`."""
    wait = response.headers.get("Retry-After", "")
    seconds = int(wait) if wait.isdecimal() else 0
    limit = utils.parse_ratelimit_headers(response.headers)  # type: ignore[attr-defined]
    if limit is not None and limit.remaining == 0:
        seconds = max(seconds, limit.reset_in_seconds)
    if response.status_code >= 400 and seconds > LONGEST_WAIT:
        raise HubError(
            f"the hub at {constants.ENDPOINT} asks to wait {seconds} seconds (status {response.status_code}), and we "
            f"wait for {LONGEST_WAIT} at most: try again later, or log in (HF_TOKEN)."
        )


def _refusal(error: BaseException | None) -> BaseException | None:
    """The refusal of the hub behind an error, which another library may have wrapped. None if there is none."""
    from_cache = False
    while error is not None:
        of_machine = isinstance(error, OSError) and error.errno is not None
        # huggingface_hub looks into the cache where it gets no file: why it got none stands behind this
        if isinstance(error, LocalEntryNotFoundError):
            from_cache = True
        elif isinstance(error, _NOT_THERE) or (of_machine and not isinstance(error, ConnectionError)):
            return None
        # without a status the hub was not reached, unless the connection broke in the middle of a file
        elif isinstance(error, HubError | HfHubHTTPError | FileMetadataError) or (
            isinstance(error, HTTPError) and not from_cache
        ):
            return error
        error = error.__cause__ or error.__context__
    return None


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only what was "
        "downloaded before (HF_HOME) and local folders work offline."
    )


@contextlib.contextmanager
def silence(*loggers: str) -> Iterator[None]:
    """Switch off bars of other libraries, and what mteb and these loggers warn of, until the context ends."""
    import datasets
    import transformers

    models: Any = transformers.utils.logging
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
        models.disable_progress_bar()  # the hub's too; so these come back before the hub's
        yield
