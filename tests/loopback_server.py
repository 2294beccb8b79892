"""A server on this machine that answers JSON, in place of an API."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def serving(answer: Callable[[str, Any], str | tuple[int, str]]) -> Iterator[str]:
    """The address of a server while it is open.

    Args:
        answer: gets the path and the JSON of each POST, and gives the body, or a status and the body.
    """

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # a body does not wait until its headers are confirmed

        def do_POST(self) -> None:
            said = answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, text = said if isinstance(said, tuple) else (200, said)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
