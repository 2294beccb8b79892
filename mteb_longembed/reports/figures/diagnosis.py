"""Does a task need long context? The score by tokens read, and below it the lengths of the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mteb_longembed.errors import InputError
from mteb_longembed.reports.figures.drawing import Drawing, draw_lines, length_label, new_drawing, style
from mteb_longembed.statistics.intervals import Interval

_GREY = "#999999"  # not the colour of a model, because the bars are about the task
# Half the width of a bar, as a factor. Neighbouring bars differ by a factor of two.
_HALF_BAR = 2**0.35


@dataclass(frozen=True)
class DiagnosisData:
    """One task.

    Args:
        task: Its name.
        score: Name of the score, e.g. `nDCG@10`.
        curves: For each model, the score in percent with its interval, by the number of tokens read of each document.
        whole: For each model, the score in percent on whole documents, with its interval.
        document_lens: The length of every document, in tokens.
    """

    task: str
    score: str
    curves: Mapping[str, Mapping[int, Interval]]
    whole: Mapping[str, Interval]
    document_lens: Sequence[int]

    def longer_than(self, length: int) -> float:
        """The percentage of documents longer than this number of tokens."""
        return 100 * sum(n > length for n in self.document_lens) / len(self.document_lens)


def draw(data: DiagnosisData) -> Drawing:
    """Draw the score curves above, and below them how many documents are longer.

    Raises:
        InputError: If there is no curve or no document.
    """
    if not data.curves or not data.document_lens or not all(data.curves.values()):
        raise InputError(
            f"a figure needs at least one score of each model and one document, the diagnosis of {data.task!r} has "
            f"{len(data.curves)} models and {len(data.document_lens)} documents."
        )
    title = f"{data.task}: {data.score} (%) by tokens read of each document"
    slug = "".join(c if c.isalnum() or c in "-." else "_" for c in data.task)
    drawing, (above, below) = new_drawing(f"diagnosis-{slug}", title, 6.4, 5.2, n_rows=2)
    series = []
    for number, (model, curve) in enumerate(data.curves.items(), start=1):
        tips = {n: f"{model}, {n:,} tokens read: {score.mean:.1f}" for n, score in curve.items()}
        series.append((model, {n: score.mean for n, score in curve.items()}, tips, style(number)))
        whole = data.whole[model]
        line = above.axhline(whole.mean, color=style(number).colour, ls=":", lw=1)
        drawing.tip(line, f"{model}, whole documents: {whole.mean:.1f}")
        if whole.is_known:
            above.axhspan(whole.low, whole.high, color=style(number).colour, alpha=0.08, lw=0)
    known = {
        model: {n: score for n, score in curve.items() if score.is_known}
        for model, curve in data.curves.items()
    }
    draw_lines(drawing, above, series, known)
    lengths = sorted({length for curve in data.curves.values() for length in curve})
    above.set_ylim(0, 102)
    above.set_ylabel(f"{data.score} (%)")
    above.set_xlabel("Tokens read of each document (dotted: whole documents; bars and bands: 95 %)")
    n_documents = len(data.document_lens)
    shares = [data.longer_than(length) for length in lengths]
    for length, share in zip(lengths, shares, strict=True):
        # The axis is logarithmic, as for the curves above. These widths look equal on it.
        (bar,) = below.bar(
            length / _HALF_BAR, share, length * (_HALF_BAR - 1 / _HALF_BAR), align="edge", color=_GREY
        )
        drawing.tip(bar, f"{share:.1f} % of {n_documents:,} documents are longer than {length:,} tokens")
        below.annotate(
            f"{share:.0f}", (length, share), (0, 2), textcoords="offset points", ha="center", fontsize=8
        )
    below.set_xscale("log", base=2)
    below.set_xticks(lengths, [length_label(length) for length in lengths])
    below.minorticks_off()
    limits = (lengths[0] / 1.5, lengths[-1] * 1.5)
    above.set_xlim(limits)
    below.set_xlim(limits)
    below.set_ylim(0, 112)
    below.set_ylabel("Longer documents (%)")
    spread = f"median {median(data.document_lens):,.0f}, longest {max(data.document_lens):,} tokens"
    below.set_xlabel(f"Tokens ({n_documents:,} documents, {spread})")
    drawing.figure.suptitle(title, fontsize=10)
    drawing.legend(above)
    return drawing
