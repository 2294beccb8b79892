"""A headless Chromium that tests drive through its pipe: no port, no driver, no network."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
#: A script waits for what the page shows at most this long.
_WAIT = """new Promise((resolve, reject) => {
  const check = (left) => (%s) ? resolve(true) : left ? setTimeout(check, 20, left - 1) : reject("never: %s");
  check(500);
})"""


class Page:
    """A page of a browser.

    Args:
        write: the file descriptor of the browser's input.
        read: its output: JSON messages, each ended by a zero byte.
    """

    def __init__(self, write: int, read: int) -> None:
        self._write = os.fdopen(write, "wb", buffering=0)
        self._read = os.fdopen(read, "rb")
        self._session = ""
        self._number = 0
        #: Events that the browser has sent.
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        letters = bytearray()
        while (letter := self._read.read(1)) != b"\0":
            assert letter, "the browser has gone"
            letters += letter
        return json.loads(letters)

    def run(self, script: str) -> Any:
        """Return the value of an expression, or of its promise."""
        answer = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        self.run(_WAIT % (condition, condition.replace('"', "'")))

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.send("Page.navigate", url=path.absolute().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def press(self, key: str) -> None:
        """Press a key."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)


@contextmanager
def browser(folder: Path, *options: str) -> Iterator[Page]:
    """Yield a page of a browser of its own, whose downloads go to the folder."""
    assert CHROMIUM
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()

    def at_three_and_four() -> None:
        # the browser reads from descriptor 3 and writes to 4; first away from them
        source, drain = os.dup(to_browser), os.dup(from_browser)
        while min(source, drain) < 5:
            source, drain = os.dup(source), os.dup(drain)
        os.dup2(source, 3)
        os.dup2(drain, 4)

    command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *options]
    with subprocess.Popen(
        command,
        preexec_fn=at_three_and_four,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(to_browser)
        os.close(from_browser)
        try:
            page = Page(write, read)
            page.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
            yield page
        finally:
            process.terminate()
