"""Tables and evidence of real models, from measured cells alone.

    LONGEMBED_QMSUM=FOLDER python -m experiments.real_models_page

FOLDER says which queries are about one meeting.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from experiments.measuring import with_ends, write_part
from experiments.ranked import QMSUM_VARIABLE, Line, Measurements, scores
from experiments.real_models import NEEDLE, PARAPHRASE, PASSKEY, QMSUM, RESULTS, WHOLE
from mteb_longembed.data.check import read_judgement_rows
from mteb_longembed.statistics.resampling import Interval, Labels, resample

PAGE = Path("experiments/real-models.md")
BASE = "all-MiniLM-L6-v2"
#: The second model: 110 million parameters, measured in bf16.
LARGER = "all-mpnet-base-v2"
#: Further columns of meetings: the heading, and how many tokens are read.
LONGER = {"512": 512, "1,024": 1024, "4,096": 4096, "whole": WHOLE}
#: The needles: the heading of a column, and its task.
NEEDLES = {"Passkey": PASSKEY, "Needle": NEEDLE, "paraphrased": PARAPHRASE}
LENGTHS = (512, 1024, 2048, 4096, 8192)  # tokens


def meetings_of(folder: Path) -> Labels:
    """The meeting of each query, in the order of their ids."""
    (path,) = folder.glob("qrels.*")
    rows = [row for _, row in read_judgement_rows(path)]
    return [[row["document"]] for row in sorted(rows, key=lambda row: str(row["query"]))]


def by_length(lines: Sequence[Line | None], digits: int) -> str:
    """The scores in percent at several lengths, a dash for one that is not measured."""
    return "/".join(f"{100 * scores(line).mean():.{digits}f}" if line else "–" for line in lines)


def table(lines: dict[tuple[str, str, str], Line], labels: Labels) -> str:
    """A row for each way to embed meetings: at 2,048 tokens, at other lengths, and with the larger model."""
    own = [key for key in lines if not key[0].startswith(LARGER)]
    at_2048 = [key for key in own if "@2048" in key[0] or "@" not in key[0] or "trained_len" in key[0]]
    meetings = {name: lines[name, task, split] for name, task, split in at_2048 if task == QMSUM}
    paper = [name for name in meetings if ":" not in name and name.endswith("@2048")]
    base = meetings[max(paper, key=lambda name: scores(meetings[name]).mean())]
    others = [name for name in meetings if meetings[name] is not base]
    compared = [scores(base), *(scores(meetings[name]) for name in others)]
    samples = resample(["base", *others], [compared], [labels])

    def percent(line: Line) -> Interval:
        return resample(["line"], [[scores(line)]], [labels]).mean("line").scaled(100)

    rows = [
        f"| setup | 2,048 | difference | {'/'.join(LONGER)} | {LARGER}, 2,048 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in sorted(meetings, key=lambda name: -scores(meetings[name]).mean()):
        difference = ""
        if name in others:
            points = samples.difference("base", name).scaled(100)
            difference = f"{points.mean:+.1f} ({points.low:+.1f} to {points.high:+.1f})"
        cells = [with_ends(percent(meetings[name])), difference]
        same = [lines.get((name.replace("@2048", f"@{length}"), QMSUM, "test")) for length in LONGER.values()]
        cells.append(by_length(same, 1) if "@2048" in name and any(same) else "")
        larger = lines.get((name.replace(BASE, LARGER), QMSUM, "test"))
        cells.append(with_ends(percent(larger)) if larger and BASE in name else "")
        rows.append(f"| `{name.removeprefix(f'{BASE}+')}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def needles(lines: dict[tuple[str, str, str], Line]) -> str:
    """A row for each way to embed: the scores of each needle task by length."""
    lines_of_setup: dict[str, dict[tuple[str, int], Line]] = {}
    for (name, task, split), line in lines.items():
        if task in NEEDLES.values() and not name.startswith(LARGER):
            length = int(split.removeprefix("test_"))
            setup = name.removeprefix(f"{BASE}+").replace(f"@{length}", "")
            lines_of_setup.setdefault(setup, {})[task, length] = line
    rows = ["| setup | " + " | ".join(NEEDLES) + " |", "|---|" + "---|" * len(NEEDLES)]
    for setup, cells in sorted(lines_of_setup.items(), key=lambda item: (":" in item[0], item[0] != "none")):
        row = []
        for task in NEEDLES.values():
            known = [cells.get((task, length)) for length in LENGTHS]
            row.append(by_length(known, 0))
        rows.append(f"| `{setup}` | {' | '.join(row)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    measured = Measurements(RESULTS, Path()).lines
    write_part(PAGE, "measured", table(measured, meetings_of(Path(os.environ[QMSUM_VARIABLE]))))
    write_part(PAGE, "needles", needles(measured))
