"""A hub that does not answer is found out once, quickly, and what is in the cache still loads."""

import errno
import itertools
import logging
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import datasets
import huggingface_hub
import pytest
import transformers

import mteb_longembed as longembed
from mteb_longembed import hub
from mteb_longembed.errors import HubError, ModelError
from tests.loopback_hub import LoopbackHub


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    hub._ask.cache_clear()


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_hub_that_does_not_answer_is_asked_once_and_never_waited_for(monkeypatch) -> None:
    point_to(closed_port(), monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waited between retries"))
    for _ in range(3):
        with pytest.raises(
            HubError, match=r"'somebody/something' is not in the cache.*HF_HOME.*local folders"
        ):
            hub.find("somebody/something", "config.json")
    assert hub._ask.cache_info().misses == 1


def test_a_hub_that_is_silent_is_given_up_after_the_time_that_its_library_waits(monkeypatch) -> None:
    point_to(closed_port(), monkeypatch)
    session = Mock()
    session.head.side_effect = TimeoutError
    monkeypatch.setattr(hub, "get_session", lambda: session)
    assert not hub.hub_answers()
    assert session.head.call_args.kwargs == {"timeout": huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT}


def test_offline_mode_sends_no_request(monkeypatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "get_session", lambda: pytest.fail("the hub was asked"))
    assert not hub.hub_answers()


def test_what_is_in_the_cache_loads_when_the_hub_is_gone(folder: Path, tmp_path: Path, monkeypatch) -> None:
    with LoopbackHub() as online:
        online.add("somebody/tiny", folder)
        online.patch(monkeypatch, tmp_path / "home")
        first = hub.find("somebody/tiny", "config.json")
    point_to(closed_port(), monkeypatch)
    assert hub.find("somebody/tiny", "config.json") == first
    assert hub.find("somebody/tiny", "modules_of_ours.json") is None
    assert not hub.hub_answers()


def refuse(status: int, headers: dict[str, str]):
    return lambda handler: handler._send(status, b"no", headers)


def login_page(handler: Any) -> None:
    handler._send(200, b"<html>log in</html>", {"Content-Type": "text/html"})


def cut_off(handler: Any) -> None:
    """Half of what the headers announce, again and again from the start."""
    if handler.command == "HEAD":
        handler._file(handler.path.strip("/"))
    else:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"x" * 500)
        handler.close_connection = True


def hang_up(handler: Any) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


#: What the hub does -> words of the one sentence.
FAULTS = {
    "500": (refuse(500, {}), "500"),
    "403": (refuse(403, {}), "403"),
    "429": (refuse(429, {"Retry-After": "1"}), "429"),
    "a redirect loop": (lambda handler: handler._send(307, b"", {"Location": handler.path}), "redirect"),
    "a login page": (login_page, "X-Repo-Commit"),
    "a cut-off file": (cut_off, "closed connection"),
    "a connection that breaks": (hang_up, "^the hub at "),
}


#: Our own code asks for the first file, and libraries for the others.
CELLS = [
    *((fault, "config.json") for fault in FAULTS),
    *((fault, "modules.json") for fault in ("403", "a login page")),
    *((fault, "model.safetensors") for fault in ("500", "a cut-off file", "a connection that breaks")),
]


@pytest.mark.parametrize(("fault", "file_name"), CELLS)
def test_what_a_hub_answers_is_one_sentence_with_its_own_words_and_a_retry_works(
    folder, empty_hub, monkeypatch, fault, file_name
):
    empty_hub.add("somebody/tiny", folder)
    answer, words = FAULTS[fault]
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    empty_hub.fault = lambda handler, path: path.endswith(f"/{file_name}") and (answer(handler), True)[1]
    # transformers says of most weights that it did not get that they are not there
    if file_name == "model.safetensors" and fault == "500":
        kind, words = ModelError, "cannot be loaded: OSError: somebody/tiny does not appear to have a file"
    else:
        kind = HubError
    with pytest.raises(kind, match=words) as error:
        longembed.load("somebody/tiny+pi@64:trained_len=16")
    assert str(error.value).endswith(".")
    empty_hub.fault = None
    assert longembed.load("somebody/tiny+pi@64:trained_len=16").encode("aa bb").shape == (32,)


def test_a_full_disk_is_not_called_a_refusal_of_the_hub() -> None:
    refused = huggingface_hub.errors.HfHubHTTPError(
        "503", response=SimpleNamespace(headers={}, request=None, status_code=503)
    )
    full = OSError(errno.ENOSPC, "No space left on device")
    full.__context__ = refused
    with pytest.raises(OSError, match="No space left"), hub.translate_hub_errors():
        raise full


def test_a_hub_that_was_gone_is_asked_again_in_the_next_minute(monkeypatch, empty_hub) -> None:
    gone = closed_port()
    now = [0.0]
    monkeypatch.setattr(hub.time, "monotonic", lambda: now[0])
    with monkeypatch.context() as patch:
        point_to(gone, patch)
        assert not hub.hub_answers()
    assert hub.hub_answers()  # another address is another hub
    monkeypatch.setattr(hub, "get_session", lambda: pytest.fail("the hub was asked"))
    now[0] = 59.0
    assert hub.hub_answers()
    now[0] = 60.0
    monkeypatch.setattr(hub, "get_session", Mock(side_effect=OSError))
    assert not hub.hub_answers()


def test_silence_gives_back_the_state_that_was_there() -> None:
    mteb_logger, bars = logging.getLogger("mteb"), transformers.utils.logging
    switches = (
        (datasets.enable_progress_bars, datasets.disable_progress_bars),
        (bars.enable_progress_bar, bars.disable_progress_bar),  # these switch the hub's too
        (huggingface_hub.utils.enable_progress_bars, huggingface_hub.utils.disable_progress_bars),
    )

    def shown() -> tuple[bool, ...]:
        hidden = datasets.are_progress_bars_disabled(), huggingface_hub.utils.are_progress_bars_disabled()
        return not hidden[0], bars.is_progress_bar_enabled(), not hidden[1]

    original, level = shown(), mteb_logger.level
    try:
        for wanted in itertools.product((True, False), repeat=3):
            for (switch_on, switch_off), is_on in zip(switches, wanted, strict=True):
                (switch_on if is_on else switch_off)()
            with hub.silence():
                with hub.silence():
                    assert shown() == (False,) * 3
                assert shown() == (False,) * 3 and mteb_logger.level == logging.ERROR
            assert shown() == wanted and mteb_logger.level == level
    finally:
        for (switch_on, switch_off), is_on in zip(switches, original, strict=True):
            (switch_on if is_on else switch_off)()
