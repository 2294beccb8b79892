"""`mteb-longembed submit-check`: what the public results repository would refuse, and why."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from mteb_longembed.commands import JSON, Options

DESCRIPTION = (
    "Check a folder of results by the rules of mteb's public results repository, and say what is missing. "
    "Nothing is sent. The exit status is 1 if something is missing, otherwise 0."
)
OPTIONS: Options = {"": [("results", {}, "folder that mteb run --output-folder wrote"), JSON]}


def main(args: argparse.Namespace) -> int:
    """Print what was found; the exit status: 1 if something is missing."""
    import mteb  # noqa: F401  # the tasks and models are in its registries

    from mteb_longembed.plugin.submission import check_submission
    from mteb_longembed.reports.safe_files import printable

    results = check_submission(args.results)
    if args.json:
        print(json.dumps([asdict(checked) for checked in results], indent=2))
    for checked in results if not args.json else ():
        lines = [f"{checked.model} at {checked.revision}"]
        if checked.ready:
            lines.append(f"  accepted as they are: {', '.join(checked.ready)}")
        if checked.local:
            lines.append(f"  stay here, since only this package has these tasks: {', '.join(checked.local)}")
        lines += [f"  missing: {sentence}" for sentence in checked.missing]
        lines += [f"  to add: {sentence}" for sentence in checked.asked]
        if not checked.missing:
            command = f"mteb submit-results --output-folder {args.results} -m {checked.model}"
            lines.append(f"  can be sent: {command}")
        print(*map(printable, lines), sep="\n")
    return 1 if any(checked.missing for checked in results) else 0
