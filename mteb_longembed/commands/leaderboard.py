"""`mteb-longembed leaderboard`: mteb's leaderboard on a folder of results, without network."""

from __future__ import annotations

import argparse
import os

from mteb_longembed.commands import Options

DESCRIPTION = (
    "Show a folder of results in mteb's leaderboard, on this machine and without network: LongEmbed+, mteb's "
    "LongEmbed and LongEmbed++, as far as they have results, with every model that has some. It needs "
    "pip install 'mteb[leaderboard]'."
)
OPTIONS: Options = {"": [
    ("results", {}, "folder that mteb run --output-folder wrote"),
    ("-b --benchmarks", {"nargs": "+", "metavar": "BENCHMARK"},
     "the benchmarks that are shown, the first one first (default: these three)"),
    ("--host", {"default": "127.0.0.1"}, "address to listen at (default: %(default)s)"),
    ("--port", {"type": int, "default": 7860}, "port to listen at (default: %(default)s)"),
]}  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Serve the page until it is interrupted.

    Args:
        args: the options.

    Returns:
        The exit status.

    Raises:
        InputError: if the folder has no results of the benchmarks.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from mteb_longembed.plugin.leaderboard.board import make_board, serve

    app = make_board(args.results, args.benchmarks)
    print(f"http://{args.host}:{args.port}", flush=True)
    serve(app, args.host, args.port)
    return 0
