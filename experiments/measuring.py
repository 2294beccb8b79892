"""The one way to measure time, and to write a table into a page."""

from collections.abc import Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table: floats with three significant digits, all columns but the first on the right.

    >>> print(table(["way", "s"], [["ours", 0.12345]]))
    | way | s |
    |---|---:|
    | ours | 0.123 |
    """
    text = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    first, *others = ["| " + " | ".join(line) + " |" for line in [list(head), *text]]
    return "\n".join([first, "|---|" + "---:|" * (len(head) - 1), *others])


def write_part(file: Path, name: str, part: str) -> None:
    """Replace what stands in a page between the comments `NAME: begin` and `NAME: end`."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(f"<!-- {name}: begin -->")
    _, end, tail = rest.partition(f"<!-- {name}: end -->")
    file.write_text(f"{head}{begin}\n{part}\n{end}{tail}", encoding="utf-8")
