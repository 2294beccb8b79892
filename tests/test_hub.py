"""A hub that does not answer is found out once, quickly, and what is in the cache still loads."""

import errno
import itertools
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import huggingface_hub
import pytest
import transformers
from huggingface_hub.errors import LocalEntryNotFoundError

import mteb_longembed as longembed
from mteb_longembed import hub
from mteb_longembed.errors import HubError, ModelError
from tests import tiny
from tests.loopback_hub import LoopbackHub


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_ANSWERS", {})


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_hub_that_does_not_answer_is_asked_once_and_never_waited_for(monkeypatch) -> None:
    point_to(closed_port(), monkeypatch)
    asked = []
    session = hub.get_session
    monkeypatch.setattr(hub, "get_session", lambda: asked.append(1) or session())
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waited between retries"))
    for _ in range(3):
        with pytest.raises(LocalEntryNotFoundError):
            hub.download("somebody/something", "config.json")
    assert asked == [1]


def test_a_hub_that_is_silent_is_told_about_in_one_line_and_given_up(monkeypatch, caplog) -> None:
    with socket.socket() as silent:  # takes connections and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        point_to(f"http://127.0.0.1:{silent.getsockname()[1]}", monkeypatch)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_ETAG_TIMEOUT", 0.4)
        monkeypatch.setattr(hub, "SILENT", 0.1)
        assert not hub.hub_answers() and not hub.hub_answers()
    [line] = [record.getMessage() for record in caplog.records if record.name == hub.__name__]
    assert line.startswith("waiting for the hub at http://127.0.0.1:")


def test_offline_mode_asks_nobody(monkeypatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "get_session", lambda: pytest.fail("the hub was asked"))
    assert not hub.hub_answers()


def test_what_is_in_the_cache_loads_when_the_hub_is_gone(tmp_path: Path, monkeypatch) -> None:
    with LoopbackHub() as online:
        online.add("somebody/tiny", tiny.saved("bert", tmp_path / "tiny", num_hidden_layers=1))
        online.patch(monkeypatch, tmp_path / "home")
        first = hub.download("somebody/tiny", "config.json")
    point_to(closed_port(), monkeypatch)
    assert hub.download("somebody/tiny", "config.json") == first
    assert not hub.hub_answers()


def test_a_hub_that_stops_answering_is_remembered(monkeypatch) -> None:
    point_to(closed_port(), monkeypatch)
    hub._ANSWERS[huggingface_hub.constants.ENDPOINT] = True, time.monotonic()
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(LocalEntryNotFoundError):
        hub.download("somebody/something", "config.json")
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


#: What the hub does -> words of the one sentence.
FAULTS = {
    "500": (refuse(500, {}), "500"),
    "403": (refuse(403, {}), "403"),
    "429": (refuse(429, {"Retry-After": "1"}), "429"),
    "a redirect loop": (lambda handler: handler._send(307, b"", {"Location": handler.path}), "redirect"),
    "a login page": (login_page, "X-Repo-Commit"),
    "a cut-off file": (cut_off, "closed connection"),
}


@pytest.mark.parametrize("file_name", ["model.safetensors", "config.json", "modules.json"])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_hub_answers_is_one_sentence_with_its_own_words_and_a_retry_works(
    tmp_path, empty_hub, monkeypatch, fault, file_name
):
    empty_hub.add("somebody/tiny", tiny.saved("bert", tmp_path / "tiny", num_hidden_layers=1))
    answer, words = FAULTS[fault]
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    monkeypatch.setattr(hub, "REMEMBERED", {True: 600.0, False: 0.0})
    empty_hub.fault = lambda handler, path: path.endswith(f"/{file_name}") and (answer(handler), True)[1]
    # transformers says of most weights that it did not get that they are not there
    if file_name == "model.safetensors" and fault not in ("a redirect loop", "a cut-off file"):
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


def test_a_hub_that_was_gone_is_asked_again_after_a_while(monkeypatch) -> None:
    answers = iter([False, True])
    monkeypatch.setattr(hub, "_ask", lambda endpoint: next(answers))
    point_to("http://127.0.0.1:1", monkeypatch)
    now = [0.0]
    monkeypatch.setattr(hub.time, "monotonic", lambda: now[0])
    assert not hub.hub_answers()
    now[0] = hub.REMEMBERED[False] - 1
    assert not hub.hub_answers()
    now[0] = hub.REMEMBERED[False] + 1
    assert hub.hub_answers()


@pytest.mark.parametrize(
    "file_name", ["model.safetensors", "config.json", "modules.json", "tokenizer_config.json"]
)
@pytest.mark.parametrize("command", ["HEAD", "GET"])
def test_a_connection_that_breaks_is_one_sentence(tmp_path, empty_hub, monkeypatch, file_name, command):
    empty_hub.add("somebody/tiny", tiny.saved("bert", tmp_path / "tiny", num_hidden_layers=1))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)

    def close(handler: Any, path: str) -> bool:
        if handler.command != command or not path.endswith(f"/{file_name}"):
            return False
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        return True

    empty_hub.fault = close
    with pytest.raises(HubError, match=r"^the hub at \S+ .*\.$"):
        longembed.load("somebody/tiny+pi@64:trained_len=16")


def in_turns(first: AbstractContextManager, second: AbstractContextManager) -> None:
    """Two threads: the first enters, the second enters, the first leaves, the second leaves."""
    turns = [threading.Event() for _ in range(2)]

    def run_first() -> None:
        with first:
            turns[0].set()
            turns[1].wait(10)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_first)
        assert turns[0].wait(10)
        with second:
            turns[1].set()
            running.result()


def test_two_threads_that_are_silent_give_back_the_state_that_was_there() -> None:
    mteb_logger = logging.getLogger("mteb")
    level = mteb_logger.level
    in_turns(hub.silence(), hub.silence())
    assert mteb_logger.level == level
    assert not datasets.are_progress_bars_disabled()
    assert transformers.utils.logging.is_progress_bar_enabled()


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
