"""Show a folder of results in mteb's own leaderboard: LongEmbed+, NanoLongEmbed and mteb's LongEmbed.

It runs on this machine only and needs no network. Example: mteb-longembed leaderboard results/
"""

import argparse
import logging
import os
import warnings
from itertools import chain
from pathlib import Path

from mteb_longembed.errors import InputError, LongEmbedError

HOST = "127.0.0.1"
#: Ours, and mteb's own with the published data.
BENCHMARKS = ["LongEmbed+", "NanoLongEmbed", "LongEmbed"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    text = "a folder that `mteb run` wrote (its default is results/)"
    parser.add_argument("results", type=Path, metavar="RESULTS", help=text)
    parser.add_argument(
        "--port", type=int, default=7860, metavar="N", help="the port of the page (default: 7860)"
    )


def main(args: argparse.Namespace) -> int:
    """Serve the leaderboard until it is interrupted.

    Raises:
        InputError: if the folder has no results of these benchmarks, or the port is not free.
        LongEmbedError: if the extra is not installed.
    """
    if not args.results.is_dir():  # mteb would create it
        raise InputError(f"there is no folder {args.results}: give the --output-folder of `mteb run`.")
    if not 0 <= args.port < 65536:
        raise InputError(f"--port must be from 0 to 65535, got {args.port}: give another one.")
    import mteb
    from mteb.cache import ResultCache

    from mteb_longembed.hub import silence

    warnings.filterwarnings("ignore", ".*: Missing splits")  # the table shows them as empty cells
    logging.getLogger("mteb.leaderboard").addHandler(logging.NullHandler())  # it logs the time of each step
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    # gradio checks that its own page answers, which must not go through a proxy
    os.environ["no_proxy"] = f"{os.environ.get('no_proxy', '')},{HOST}"
    with silence():
        benchmarks = mteb.get_benchmarks(BENCHMARKS)
        tasks = list(chain.from_iterable(benchmark.tasks for benchmark in benchmarks))
        try:
            results = ResultCache(args.results).load_results(tasks=tasks, load_experiments="match_name")
        except ValueError as error:  # a truncated file, or fields of other types
            raise InputError(
                f"mteb cannot read all results in {args.results}: mteb-longembed report {args.results} names the file."
            ) from error
        of_models = chain.from_iterable(model.task_results for model in results.model_results)
        done = {result.task_name for result in of_models}
        filled = [one.name for one in benchmarks if any(task.metadata.name in done for task in one.tasks)]
        if not filled:
            raise InputError(
                f"no results of LongEmbed tasks were found in {args.results}: give the --output-folder of `mteb run`."
            )
        try:
            from mteb_longembed.plugin.leaderboard import make_app
        except ModuleNotFoundError as error:
            raise LongEmbedError(
                f"the leaderboard needs {error.name}: pip install 'mteb-longembed[leaderboard]'."
            ) from error
        app = make_app(results, benchmarks, filled[0])
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
