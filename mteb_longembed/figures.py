"""Common code of the figures of `report` and `compare`: settings and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError
from mteb_longembed.files import make_folder, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colour of grid lines.
GRID = "#dddddd"
#: Settings with which files are reproducible byte for byte, and text in SVG stays text.
RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mteb-longembed",
}
#: Metadata of matplotlib to leave out, by format: the time, or its version.
METADATA = {"svg": {"Date": None, "Creator": None}, "png": {}, "pdf": {"CreationDate": None}}


def panels(width: float, height: float, n: int) -> tuple[Figure, list[Axes]]:
    """Create a figure of a size in inches with `n` panels side by side that share the vertical axis."""
    import matplotlib  # takes a second, and most commands draw nothing
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(1, n, squeeze=False, sharey=True)[0].tolist()


def panels_below(width: float, height: float, n: int) -> tuple[Figure, list[Axes], Axes]:
    """Create a figure of a size in inches with `n` panels below each other, and axes for a legend on the right."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.add_gridspec(n, 2, width_ratios=(2, 1))
        legend = figure.add_subplot(grid[:, 1])
        legend.set_axis_off()
        return figure, [figure.add_subplot(grid[i, 0]) for i in range(n)], legend


def drawn(figure: Figure, kind: str, *, dpi: float | None = None, transparent: bool = False) -> bytes:
    """Render a figure as the bytes of a file.

    Args:
        figure: the figure.
        kind: a format of `METADATA`.
        dpi: dots per inch; None: the figure's own.
        transparent: whether it has no background.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a dollar sign in a model's name is not math
    out = io.BytesIO()
    with matplotlib.rc_context(RC):
        figure.savefig(
            out, format=kind, metadata=METADATA[kind], dpi=dpi or "figure", transparent=transparent
        )
    return out.getvalue()


def prepare(path: Path) -> str:
    """Make the folder of a figure's file, and return the format by its suffix.

    Raises:
        InputError: if the suffix is none of `.svg`, `.png` and `.pdf`, or the folder cannot be made.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in METADATA:
        raise InputError(f"a figure is a .svg, .png or .pdf file, got {path.name!r}.")
    make_folder("the folder of --figure", path.parent)
    return kind


def write(figure: Figure, path: Path) -> None:
    """Write a figure into a file, see `prepare`."""
    write_file(path, drawn(figure, prepare(path), dpi=160))
