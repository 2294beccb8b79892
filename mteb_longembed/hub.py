"""Does the Hugging Face hub answer? Each process asks once, so that no user waits for many retries.

This module may import only `errors`. Every module that reads from the hub may use it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_session, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import LocalEntryNotFoundError

logger = logging.getLogger(__name__)
#: Seconds to wait for an answer (HF_HUB_ETAG_TIMEOUT can set more), and seconds after which a warning tells the
#: user that we are waiting.
WAIT, SILENT = 5.0, 1.0

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


def download(repository: str, name: str, *, revision: str | None = None, **options: Any) -> Path:
    """A file of a repository. If the hub does not answer, the file can only come from the cache.

    Args:
        repository: hub id.
        name: path of the file in it.
        revision: commit, branch or tag.
        options: further arguments of `hf_hub_download`.

    Raises:
        LocalEntryNotFoundError: if the hub does not answer and the file is not in the cache.
        HfHubHTTPError: if the hub has no such file or repository (`hf_hub_download` raises it).
    """
    if revision and len(revision) == 40:  # a commit never changes: a file in the cache needs no network
        known = try_to_load_from_cache(
            repository, name, revision=revision, repo_type=options.get("repo_type")
        )
        if isinstance(known, str):
            return Path(known)
    answers = hub_answers()
    try:
        return Path(
            hf_hub_download(repository, name, revision=revision, local_files_only=not answers, **options)
        )
    except LocalEntryNotFoundError:
        _ANSWERS[constants.ENDPOINT] = False  # the hub answered before, but it does not answer now
        raise


def _ask(endpoint: str) -> bool:
    found: list[bool] = []
    asked_for = constants.HF_HUB_ETAG_TIMEOUT
    wait = WAIT if asked_for == constants.DEFAULT_ETAG_TIMEOUT else float(asked_for)

    def ask() -> None:
        try:
            found.append(get_session().head(endpoint, timeout=wait).status_code < 500)
        except Exception:  # look-up, proxy, certificate, time-out: HTTP libraries share no class of errors
            found.append(False)

    # this runs in a thread, because the look-up of a host name has no time-out of its own
    asking = threading.Thread(target=ask, daemon=True, name="ask-hub")
    asking.start()
    asking.join(SILENT)
    if asking.is_alive():
        logger.warning("waiting for the hub at %s, for at most %.0f seconds", endpoint, wait)
        asking.join(wait - SILENT)
    return bool(found and found[0])
