"""`mteb-longembed leaderboard`: mteb's own leaderboard of a folder of results, in a browser."""

import argparse
import logging
import os
import warnings
from pathlib import Path

from mteb_longembed.commands import Options
from mteb_longembed.errors import InputError

HOST = "127.0.0.1"
DESCRIPTION = (
    "Show a folder of results in mteb's own leaderboard: LongEmbed+, NanoLongEmbed and mteb's LongEmbed. It runs on "
    "this machine only and needs no network."
)
EPILOG = "example: mteb-longembed leaderboard results/"
OPTIONS: Options = {
    "": [
        ("results", {"type": Path, "metavar": "RESULTS"}, "a folder that `mteb run` wrote (its default is results/)"),
        ("--port", {"type": int, "default": 7860, "metavar": "N"}, "the port of the page (default: 7860)"),
    ],
}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Serve the leaderboard until it is interrupted.

    Raises:
        LongEmbedError: as `make_app` does, or if the port is not free.
    """
    from mteb_longembed.hub import silence
    from mteb_longembed.plugin.leaderboard import make_app

    warnings.filterwarnings("ignore", ".*: Missing splits")  # the table has an empty cell for each
    logging.getLogger("mteb.leaderboard").addHandler(logging.NullHandler())  # it logs the time of each step
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    if not args.results.is_dir():  # mteb would make it
        raise InputError(f"there is no folder {args.results}: give the --output-folder of `mteb run`.")
    with silence():
        app = make_app(args.results)
    # gradio asks its own page whether it answers: never by a proxy
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), HOST]))
    try:
        _, address, _ = app.launch(
            server_name=HOST, server_port=args.port, share=False, prevent_thread_lock=True, quiet=True
        )
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--port must be free on this machine, got {args.port}: give another one."
        ) from error
    print(f"{address} shows {args.results}; Ctrl-C stops it.", flush=True)
    app.block_thread()
    return 0
