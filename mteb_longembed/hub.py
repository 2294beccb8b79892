"""Does the Hugging Face hub answer, and what? Each process asks once, so that no user waits for many retries.

And `silence`, because the hub's libraries show bars and messages of their own.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from huggingface_hub import constants, get_session, hf_hub_download, try_to_load_from_cache, utils
from huggingface_hub.errors import (  # type: ignore[attr-defined]
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
)

from mteb_longembed.errors import HubError

logger = logging.getLogger(__name__)
#: Seconds to wait for an answer (HF_HUB_ETAG_TIMEOUT can set more), and seconds after which a warning tells the
#: user that we are waiting.
WAIT = 5.0
SILENT = 1.0
#: How often the hub may refuse one request, cut one answer off at the same place, or redirect before we give up.
TRIES = 3
REDIRECTS = 10

_ANSWERS: dict[str, bool] = {}
_LOCK = threading.Lock()


def hub_answers() -> bool:
    """Whether the hub answers within five seconds. This process remembers the answer.

    Differs: `huggingface_hub` asks up to six times for each file, for 23 seconds in all.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    endpoint = constants.ENDPOINT
    with _LOCK:
        if endpoint not in _ANSWERS:
            _ANSWERS[endpoint] = _ask(endpoint)
        return _ANSWERS[endpoint]


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
        _ANSWERS[constants.ENDPOINT] = False  # the hub answered before, but it does not answer now
        raise


class _Answers:
    """What the hub answered to the calls of one thread, and the last answer that was no file, in one sentence."""

    def __init__(self) -> None:
        self.message = ""
        self._seen: Counter[object] = Counter()

    def look(self, response: Any) -> None:
        """Note a response of the hub. Raises HubError after a few that are no file."""
        request = response.request
        status = response.status_code
        file: object = request.method, str(request.url), request.headers.get("range")
        wait = response.headers.get("retry-after", "")
        if status == 429 or status >= 500:
            later = f", and asks to wait {wait} seconds" if wait else ""
            what = f"{status} {response.reason_phrase}{later}"
            stop = self._seen[file] + 1 >= TRIES or (wait.isdigit() and int(wait) > WAIT)
        elif response.is_redirect:
            file = None
            what = "with redirects that do not end"
            stop = self._seen[file] + 1 >= REDIRECTS
        elif "text/html" in response.headers.get("content-type", ""):
            what = "with a web page instead of a file, as a login page does"
            stop = False
        elif request.method == "GET" and "/api/" not in str(request.url):
            what = "with a file that is cut off"
            stop = self._seen[file] + 1 > TRIES
        else:
            self._seen[None] = 0
            return
        self._seen[file] += 1
        if stop or "web page" in what or status >= 400:
            server = f"{request.url.scheme}://{request.url.netloc.decode()}"
            self.message = f"the hub at {server} answered {what} ({request.url.path}): try again later."
        if stop:
            raise HubError(self.message)


#: The answers to the calls of this thread. None: nobody looks at them.
_LOOKING: ContextVar[_Answers | None] = ContextVar("_LOOKING", default=None)


def _look(response: Any) -> None:
    """The one hook in the session that all threads share. It does nothing where `translate_hub_errors` does not run."""
    answers = _LOOKING.get()
    if answers is not None:
        answers.look(response)


@contextlib.contextmanager
def translate_hub_errors() -> Iterator[None]:
    """Inside this context, answers that are no files end in one sentence with the server's name and what it said.

    Differs: `huggingface_hub` asks up to eleven times for each file, for a minute in all, and has no setting for it.

    Raises:
        HubError: after a few refusals, for a time to wait longer than ours, or if the connection breaks.
    """
    session = get_session()
    with _LOCK:
        if _look not in session.event_hooks["response"]:
            session.event_hooks["response"].append(_look)
    answers = _Answers()
    before = _LOOKING.set(answers)
    try:
        yield
    except (OSError, HTTPError) as error:
        message = answers.message
        if "Consistency check failed" in str(error):  # huggingface_hub's words for a short file
            message = (
                f"the hub at {constants.ENDPOINT} answered with a file that is cut off: try again later."
            )
        elif not message and _broke(error):
            message = f"the connection to the hub at {constants.ENDPOINT} broke: try again later."
        if message:
            raise HubError(message) from error
        raise
    finally:
        _LOOKING.reset(before)


def _broke(error: BaseException | None) -> bool:
    """Whether a connection broke, also if the error of another library hides that."""
    # without a connection, huggingface_hub looks in the cache; an answer such as "not found" came whole
    while error is not None and not isinstance(error, (LocalEntryNotFoundError, HfHubHTTPError)):
        # an answer of the hub is an OSError too
        if isinstance(error, HTTPError) and not isinstance(error, OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


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
