"""Does the Hugging Face hub answer, and what? A process asks once in a while, so that no user waits for retries.

And `silence`, because the hub's libraries show bars and messages of their own.
"""

import contextlib
import functools
import importlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from huggingface_hub import constants, get_session, hf_hub_download, try_to_load_from_cache, utils
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    EntryNotFoundError,
    FileMetadataError,
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from mteb_longembed.errors import HubError

logger = logging.getLogger(__name__)
#: Seconds to wait for an answer (HF_HUB_ETAG_TIMEOUT can set more), and seconds after which a warning tells the
#: user that we are waiting.
WAIT = 5.0
SILENT = 1.0
#: Seconds for which a process remembers that the hub answers, and that it does not.
REMEMBERED = {True: 600.0, False: 30.0}

#: What the hub's library raises where the hub was reached and gave no file: a status, another server's page.
_REFUSALS = (HfHubHTTPError, FileMetadataError)
#: What it raises for a file or repository that is not there.
_NOT_THERE = (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError)
#: Endpoint -> whether it answers, and when it was asked.
_ANSWERS: dict[str, tuple[bool, float]] = {}
_LOCK = threading.Lock()


def hub_answers() -> bool:
    """Whether the hub answers within five seconds. A process remembers it for a while.

    Differs: `huggingface_hub` asks up to six times for each file, for 23 seconds in all.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    endpoint = constants.ENDPOINT
    with _LOCK:
        answers, asked_at = _ANSWERS.get(endpoint, (False, -math.inf))
        if time.monotonic() - asked_at > REMEMBERED[answers]:
            answers = _ask(endpoint)
            _ANSWERS[endpoint] = answers, time.monotonic()
        return answers


def download(
    repository: str, name: str, *, revision: str | None = None, repo_type: str | None = None
) -> Path:
    """A file of a repository. If the hub does not answer, the file can only come from the cache.

    Raises:
        LocalEntryNotFoundError: if the hub does not answer and the file is not in the cache.
        HfHubHTTPError: if the hub has no such file or repository (`hf_hub_download` raises it).
    """
    if revision and len(revision) == 40:  # a commit never changes: a file in the cache needs no network
        path = try_to_load_from_cache(repository, name, revision=revision, repo_type=repo_type)
        if isinstance(path, str):
            return Path(path)
    answers = hub_answers()
    try:
        with translate_hub_errors() if answers else contextlib.nullcontext():
            path = hf_hub_download(
                repository, name, revision=revision, repo_type=repo_type, local_files_only=not answers
            )
            return Path(path)
    except LocalEntryNotFoundError:
        # the hub may have answered before, but it does not answer now
        _ANSWERS[constants.ENDPOINT] = False, time.monotonic()
        raise


@contextlib.contextmanager
def translate_hub_errors() -> Iterator[None]:
    """Inside this context, a hub that refuses or breaks off is one sentence, which has the library's own words.

    Raises:
        HubError: if the hub was reached and gave no file.
    """
    try:
        yield
    except (OSError, HTTPError) as error:
        refused = _refusal(error)
        if refused is None:
            raise
        words = " ".join(str(refused).split())[:200].rstrip(".:")
        raise HubError(
            f"the hub at {constants.ENDPOINT} gave no file ({words or type(refused).__name__}): try again later."
        ) from error


def _refusal(error: BaseException | None) -> BaseException | None:
    """The refusal of the hub behind an error, which another library may have wrapped. None if there is none."""
    from_cache = False
    while error is not None:
        # huggingface_hub looks into the cache where it gets no file: why it got none stands behind this
        if isinstance(error, LocalEntryNotFoundError):
            from_cache = True
        elif _is_no_answer(error):
            return None
        # without a status the hub was not reached, unless the connection broke in the middle of a file
        elif isinstance(error, _REFUSALS) or (isinstance(error, HTTPError) and not from_cache):
            return error
        error = error.__cause__ or error.__context__
    return None


def _is_no_answer(error: BaseException) -> bool:
    """Whether an error is what callers look for (a file or repository that is not there), or one of this machine."""
    of_machine = isinstance(error, OSError) and error.errno is not None
    return isinstance(error, _NOT_THERE) or (of_machine and not isinstance(error, ConnectionError))


#: Switch -> how many calls keep it off at this moment, and what gives back the state before the first of them.
_OFF: dict[str, tuple[int, Callable[[], None]]] = {}


@contextlib.contextmanager
def silence(*loggers: str) -> Iterator[None]:
    """Switch off bars of other libraries, and what mteb and these loggers warn of, until the context ends.

    If several threads are in this context, the last one that leaves gives back the state that was there.
    """
    switches = {"bars": _hide_bars}
    for name in ("mteb", *loggers):
        switches[name] = functools.partial(_only_errors, logging.getLogger(name))
    with _LOCK:
        for name, switch_off in switches.items():
            n, give_back = _OFF.get(name) or (0, switch_off())
            _OFF[name] = (n + 1, give_back)
    try:
        yield
    finally:
        with _LOCK:
            for name in switches:
                n, give_back = _OFF.pop(name)
                if n > 1:
                    _OFF[name] = (n - 1, give_back)
                else:
                    give_back()


def _only_errors(of: logging.Logger) -> Callable[[], None]:
    """Let a logger pass errors alone. Returns what gives back its level."""
    level = of.level
    of.setLevel(logging.ERROR)
    return functools.partial(of.setLevel, level)


def _hide_bars() -> Callable[[], None]:
    """Switch off the bars of datasets, transformers and the hub. Returns what gives back their state."""
    import datasets

    # a module without types
    models: ModuleType = importlib.import_module("transformers.utils.logging")
    after = contextlib.ExitStack()
    for bars in (datasets, utils):
        are_off = bars.are_progress_bars_disabled()
        after.callback(bars.disable_progress_bars if are_off else bars.enable_progress_bars)
    are_on = models.is_progress_bar_enabled()
    after.callback(models.enable_progress_bar if are_on else models.disable_progress_bar)
    datasets.disable_progress_bars()
    models.disable_progress_bar()  # the hub's too; so these come back before the hub's
    return after.close


def _ask(endpoint: str) -> bool:
    answers: list[bool] = []
    asked_for = constants.HF_HUB_ETAG_TIMEOUT
    wait = WAIT if asked_for == constants.DEFAULT_ETAG_TIMEOUT else float(asked_for)

    def ask() -> None:
        try:
            answers.append(bool(get_session().head(endpoint, timeout=wait).status_code))
        except Exception:  # look-up, proxy, certificate, time-out: HTTP libraries share no class of errors
            answers.append(False)

    # this runs in a thread, because the look-up of a host name has no time-out of its own
    asking = threading.Thread(target=ask, daemon=True, name="ask-hub")
    asking.start()
    asking.join(SILENT)
    if asking.is_alive():
        logger.warning("waiting for the hub at %s, for at most %.0f seconds", endpoint, wait)
        asking.join(wait - SILENT)
    return bool(answers and answers[0])


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only models that "
        "were downloaded before (HF_HOME) and local folders work offline."
    )
