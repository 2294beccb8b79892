"""`mteb-longembed leaderboard`: mteb's leaderboard on a folder of results, without network."""

from __future__ import annotations

import argparse
import os


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = (
        "Show a folder of results in mteb's leaderboard, on this machine and without network: LongEmbed+, mteb's "
        "LongEmbed and LongEmbed++, as far as they have results, with every model that has some. It needs "
        "pip install 'mteb[leaderboard]'."
    )
    parser.add_argument("results", help="folder that mteb run --output-folder wrote")
    parser.add_argument(
        "-b",
        "--benchmarks",
        nargs="+",
        metavar="BENCHMARK",
        help="the benchmarks that are shown, the first one first (default: these three)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7860, help="port to listen at (default: %(default)s)")


def main(args: argparse.Namespace) -> int:
    """Serve the page until it is interrupted; the exit status."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    from mteb_longembed.plugin.leaderboard.board import make_board, serve

    app = make_board(args.results, args.benchmarks)
    print(f"http://{args.host}:{args.port}", flush=True)
    serve(app, args.host, args.port)
    return 0
