"""`mteb-longembed leaderboard`: mteb's own leaderboard of a folder of results, in a browser."""

import argparse
from pathlib import Path

from mteb_longembed.commands import Options


def _port(text: str) -> int:
    """A port.

    Raises:
        argparse.ArgumentTypeError: if it is no number from 1 to 65,535.
    """
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")
    return int(text)


DESCRIPTION = (
    "Show a folder of results in mteb's own leaderboard: LongEmbed+ and mteb's LongEmbed. It runs on this machine only "
    "and needs no network."
)
EPILOG = "example: mteb-longembed leaderboard results/"
OPTIONS: Options = {
    "": [
        ("results", {"type": Path, "metavar": "RESULTS"}, "a folder that `mteb run` wrote (its default is results/)"),
        ("--port", {"type": _port, "default": 7860, "metavar": "N"}, "the port of the page (default: 7860)"),
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Serve the leaderboard until it is interrupted.

    Raises:
        LongEmbedError: as `make_app` and `start` do.
    """
    from mteb_longembed.hub import silence
    from mteb_longembed.plugin.leaderboard import make_app, start

    with silence():
        app = make_app(args.results)
    print(f"{start(app, args.port)} shows {args.results}; Ctrl-C stops it.", flush=True)
    app.block_thread()
    return 0
