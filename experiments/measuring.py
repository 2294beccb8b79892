"""The one way to write a table into a page."""

from pathlib import Path


def write_part(file: Path, name: str, part: str) -> None:
    """Replace what stands in a page between the comments `NAME: begin` and `NAME: end`."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(f"<!-- {name}: begin -->")
    _, end, tail = rest.partition(f"<!-- {name}: end -->")
    file.write_text(f"{head}{begin}\n{part}\n{end}{tail}", encoding="utf-8")
