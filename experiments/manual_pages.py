"""Repeat a newcomer's run on manual pages, and check what the front door promises.

python -m experiments.manual_pages FOLDER MODEL

FOLDER has `pages/` with text files, `questions.jsonl` and `qrels.tsv`. Times are processor times of one thread, so that
other work on the machine does not count. Ends with status 1 if a check fails.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mteb_longembed.retrieval.recommended import recommended

#: The least share of the text that `search MODEL` reads.
LEAST_READ = 0.99
#: How many times the cost of one pass over plain windows: until two candidates are compared, and of `--quick`.
FIRST_TABLE = 1.2
QUICK = 1.3
#: After how many candidates the full comparison is interrupted.
INTERRUPTED_AFTER = 4
#: A row of the table so far, where the output is no terminal.
_ROW = re.compile(r"(\d+) of \d+: ")
_TICKS = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str
    seconds: float  #: of the processor
    first_table: float  #: the same until two candidates were compared; 0 for other commands


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def hear_interrupts() -> None:
    """Let a command hear Ctrl-C, which a shell's background jobs ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(folder: Path, *arguments: str, interrupt: bool = False) -> Run:
    """Run a command of this package with an empty cache, and perhaps interrupt it."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        environment = {**os.environ, "MTEB_LONGEMBED_CACHE": cache, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "mteb_longembed", *arguments]
        pipes: dict[str, Any] = {"stdout": out, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=hear_interrupts, **pipes)
        told = []
        first_table = 0.0
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line)
            row = _ROW.search(line)
            if row and row[1] == "2":
                first_table = processor_seconds(process.pid)
            if row and interrupt and int(row[1]) == INTERRUPTED_AFTER:
                process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        seconds = usage.ru_utime + usage.ru_stime
        return Run(process.returncode, out.read(), "".join(told), seconds, first_table)


def comparison_in(folder: Path) -> dict[str, Any]:
    """Return the JSON of the one comparison that a results folder has."""
    (path,) = folder.glob("comparisons/*/compare.json")
    found: dict[str, Any] = json.loads(path.read_bytes())
    found["page"] = (path.parent / "compare.html").read_text(encoding="utf-8")
    return found


def contradictions(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the candidates whose standing is not what the interval of their difference says."""
    found = []
    for row in rows:
        is_behind = row["to_best_high"] is not None and row["to_best_high"] < 0
        if is_behind != (row["standing"] == "behind"):
            found.append(row["label"])
    return found


def main() -> None:
    """Run all steps, print what each of them shows, and say whether it is as promised."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model")
    args = parser.parse_args()
    source = args.folder.resolve()
    corpus = ["--corpus", str(source / "pages")]
    data = [*corpus, "--queries", str(source / "questions.jsonl"), "--qrels", str(source / "qrels.tsv")]
    question = "How can I find the commit that introduced a bug?"
    failed = []

    def check(what: str, is_so: bool) -> None:
        print(f"{'ok    ' if is_so else 'FAILED'} {what}", flush=True)
        if not is_so:
            failed.append(what)

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        one = run(work, "index", f"{args.model}+windows", *corpus, "--to", "index")
        print(f"one pass over windows: {one.seconds:.0f} s", flush=True)
        found = run(work, "search", args.model, question, *corpus, "--no-cache")
        print(found.err, found.out, sep="\n", flush=True)
        quick = run(work, "compare", args.model, *data, "--quick", "--output-folder", "quick")
        print(quick.out, flush=True)
        full = run(work, "compare", args.model, *data, "--output-folder", "full", interrupt=True)
        print(full.out, flush=True)
        of_quick = comparison_in(work / "quick")
        of_full = comparison_in(work / "full")
    check(
        "every command ends as it should",
        [one.status, found.status, quick.status, full.status] == [0, 0, 0, 130],
    )
    name = recommended(args.model)
    check(f"search MODEL says that it uses {name}", f"searching with {name}" in found.err)
    check("search MODEL says nothing of text that is not read", "not read" not in found.err)
    row = next(row for row in of_quick["candidates"] if "+hybrid" in row["label"])
    share = row["share_read"]
    check(f"it reads {100 * share:.2f} % of the text, at least {100 * LEAST_READ:.0f} %", share >= LEAST_READ)
    times = full.first_table / one.seconds
    check(
        f"the first table of compare costs {times:.2f} passes, at most {FIRST_TABLE}",
        0 < times <= FIRST_TABLE,
    )
    times = quick.seconds / one.seconds
    check(f"compare --quick costs {times:.2f} passes, at most {QUICK}", times <= QUICK)
    first = full.out.partition("\n")[0]
    is_told = "interrupted" in first and "interrupted" in of_full["page"] and not of_full["is_complete"]
    check(f"an interrupted run says so: {first}", is_told)
    wrong = contradictions([*of_quick["candidates"], *of_full["candidates"]])
    check(f"no row contradicts its interval: {', '.join(wrong) or 'none does'}", not wrong)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
