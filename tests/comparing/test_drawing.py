from itertools import combinations

import pytest

from mteb_longembed.comparing.drawing import draw_lines, new_drawing, style
from mteb_longembed.statistics.intervals import Interval


@pytest.fixture(scope="module")
def drawings():
    names = ("none", "pcw", "gp", "pi", "ntk")
    series = []
    for number, name in enumerate(names):
        scores = {}
        for length in (256, 4096, 32768):
            scores[length] = Interval(30 + 5 * number, 25 + 5 * number, 40 + 5 * number)
        series.append(
            (f"intfloat/e5-base-v2+{name}@4096", scores, dict.fromkeys(scores, name), style(number))
        )
    made = []
    for key, shown in (("all", series), ("alone", series[:1])):
        drawing, (axes,) = new_drawing(key, "Score by length", 5.4, 4)
        draw_lines(drawing, axes, shown)
        axes.set(xlabel="tokens", ylabel="score")
        drawing.legend(axes)
        made.append(drawing)
    return made


def _texts(figure):
    """All texts that are drawn: not those of ticks beyond the ends of an axis."""
    from matplotlib.text import Text

    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = figure.findobj(Text)
    return [text for text in texts if text.get_visible() and text.get_text().strip() and text not in hidden]


def test_every_text_lies_inside_its_picture_and_on_no_other_text(drawings):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for drawing in drawings:
        canvas = FigureCanvasAgg(drawing.figure)
        canvas.draw()
        drawn = drawing.figure.get_tightbbox(canvas.get_renderer())  # In inches, as the size.
        width, height = drawing.figure.get_size_inches()
        assert drawn.x0 >= 0 and drawn.x1 <= width, drawing.key
        assert drawn.y0 >= 0 and drawn.y1 <= height, drawing.key
        renderer, texts = canvas.get_renderer(), _texts(drawing.figure)
        boxes = {text: text.get_window_extent(renderer).padded(-1) for text in texts}
        for (a, first), (b, second) in combinations(boxes.items(), 2):
            assert not first.overlaps(second), (drawing.key, a.get_text(), b.get_text())


def test_scores_over_lengths_carry_their_intervals():
    drawing, (axes,) = new_drawing("lines", "Lines", 5, 4)
    scores = {512: Interval(30, 20, 40), 4096: Interval(50, 40, 60)}
    draw_lines(drawing, axes, [("a", scores, {512: "low", 4096: "high"}, style(0))])
    drawn = [line for line in axes.lines if len(set(line.get_xdata())) == 1 < len(line.get_xdata())]
    assert [tuple(line.get_ydata()) for line in drawn] == [
        (score.low, score.high) for score in scores.values()
    ]
    assert list(drawing.tips.values()) == ["low", "high"]


def test_every_tip_is_in_the_svg(drawings):
    for drawing in drawings:
        svg = drawing.svg()
        assert drawing.tips
        for name in drawing.tips:
            assert f'id="{name}"' in svg


def test_a_figure_is_the_same_every_time(drawings):
    assert drawings[0].svg() == drawings[0].svg()


def test_28_series_look_different_and_seven_have_colours_of_their_own():
    assert len({style(number) for number in range(28)}) == 28
    assert len({style(number).colour for number in range(7)}) == 7
