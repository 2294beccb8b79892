from itertools import combinations

import pytest

from mteb_longembed.reports.figures import heat_maps, strategies
from mteb_longembed.reports.figures.drawing import draw_lines, new_drawing, style
from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.scores.scoreboard import accuracy
from tests.reports.made import BASE, ROTARY, lines


@pytest.fixture(scope="module")
def drawings():
    scores = {f"{BASE}+none@512": 0.3, f"{ROTARY}+none@512": 0.3}
    for i, target in enumerate((1024, 4096)):
        for j, name in enumerate(("pcw", "gp", "pi", "ntk")):
            scores[f"{BASE}+{name}@{target}"] = 0.3 + 0.06 * i + 0.02 * j
            scores[f"{ROTARY}+{name}@{target}"] = 0.32 + 0.06 * i + 0.02 * j
    made = lines(scores)
    partial = lines({"a/b+pi@1k": 0.1, "a/c+pi@4k": 0.1}, splits=["test_256"])
    shown = heat_maps.draw(made) + heat_maps.draw(partial)
    for group in group_by_base(made):
        shown += strategies.draw(group)
    return shown


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

    assert len(drawings) == 8
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
    scores = {512: accuracy((0.3,)), 4096: accuracy((0.5,))}
    draw_lines(drawing, axes, [("a", scores, {512: "low", 4096: "high"}, style(0))])
    drawn = [line for line in axes.lines if len(set(line.get_xdata())) == 1 < len(line.get_xdata())]
    assert [tuple(line.get_ydata()) for line in drawn] == [
        (score.low, score.high) for score in scores.values()
    ]
    assert list(drawing.tips.values()) == ["low", "high"]


def test_an_average_without_single_queries_says_that_it_has_no_interval(drawings):
    for drawing in drawings:
        if drawing.key.startswith("targets"):
            assert drawing.figure.legends[0].get_title().get_text().startswith("no intervals")


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
