import pytest

from mteb_longembed.reports.figures import bars, curves, heat_maps
from mteb_longembed.reports.figures.drawing import styles
from tests.reports.made import BASE, ROTARY, lines


@pytest.fixture(scope="module")
def drawings():
    scores = {f"{BASE}+none@512": 0.3, f"{ROTARY}+none@512": 0.3}
    for i, target in enumerate((1024, 4096)):
        for j, name in enumerate(("pcw", "gp", "pi", "ntk")):
            scores[f"{BASE}+{name}@{target}"] = 0.3 + 0.06 * i + 0.02 * j
            scores[f"{ROTARY}+{name}@{target}"] = 0.32 + 0.06 * i + 0.02 * j
    made = lines(scores)
    pair = [(f"{BASE}+pi@1024", f"{BASE}+pi@4096")]
    partial = lines({"a/b+pi@1k": 0.1, "a/c+pi@4k": 0.1}, splits=["test_256"])
    return [
        *map(heat_maps.draw, heat_maps.by_model(made)),
        *map(heat_maps.draw, heat_maps.by_model(partial)),
        *map(bars.draw, bars.improvement(made)),
        *map(curves.draw_targets, curves.targets(made)),
        *map(curves.draw_targets, curves.targets(made, "Passkey")),
        *map(bars.draw, bars.tuning(made, pair)),
        *map(curves.draw_positions, curves.positions(made)),
    ]


def _texts(figure):
    """All texts that are drawn: not those of ticks beyond the ends of an axis."""
    from matplotlib.text import Text

    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
        if not axes.get_visible():
            hidden |= set(axes.findobj(Text))
    texts = figure.findobj(Text)
    return [text for text in texts if text.get_visible() and text.get_text().strip() and text not in hidden]


def test_every_text_lies_inside_its_picture_and_on_no_other_text(drawings):
    from itertools import combinations

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


def test_scores_over_lengths_carry_their_intervals(drawings):
    (drawing,) = (drawing for drawing in drawings if drawing.key.startswith("targets-passkey"))
    lines = drawing.figure.axes[0].lines
    drawn = [line for line in lines if len(set(line.get_xdata())) == 1 < len(line.get_xdata())]
    # Two target lengths and the base's own, for each of four strategies.
    assert len(drawn) == 12
    low, high = drawn[0].get_ydata()
    assert low < 30 < high or low < 36 < high
    assert "95 % interval" in drawing.figure.legends[0].get_title().get_text()


def test_an_average_without_single_queries_says_that_it_has_no_interval(drawings):
    (drawing,) = (drawing for drawing in drawings if drawing.key.startswith("targets-average"))
    assert drawing.figure.legends[0].get_title().get_text().startswith("no intervals")


def test_every_tip_is_in_the_svg(drawings):
    for drawing in drawings:
        svg = drawing.svg()
        assert drawing.tips
        for name in drawing.tips:
            assert f'id="{name}"' in svg


def test_a_figure_is_the_same_every_time(drawings):
    assert drawings[0].svg() == drawings[0].svg()


def test_a_strategy_looks_alike_in_every_figure_and_its_variants_differ():
    alone, together = styles(["+ntk"]), styles(["+pcw", "+gp", "+ntk", "+ntk:logn=off"])
    assert alone["+ntk"] == together["+ntk"]
    assert together["+ntk"].colour == together["+ntk:logn=off"].colour
    assert together["+ntk"].line != together["+ntk:logn=off"].line
    seven = styles(["+none", "+pcw", "+gp", "+rp", "+pi", "+ntk", "+se"])
    assert len({look.colour for look in seven.values()}) == 7


def _tasks(drawing):
    (axes,) = drawing.figure.axes
    return [label.get_text() for label in axes.get_xticklabels()]


def test_the_heat_map_explains_the_marks_that_are_in_it():
    def key(scored):
        return heat_maps.draw(heat_maps.by_model(scored)[0]).figure.get_supxlabel()

    assert key(lines({f"{BASE}+pi@4096": 0.305})) == "♦ 4k tokens or more"
    assert key(lines({BASE: 0.305})) == ""
    assert key(lines({BASE: 0.3})) == "50 queries a cell: a 50 stands for 37 to 63 (95 %)"
    partial = lines({f"{BASE}+none@512": 0.305}, splits=["test_256"])
    assert key(partial) == "▲ reads fewer than 4k tokens, hatched: not measured"


def test_bars_leave_out_tasks_that_were_not_measured():
    scored = lines({f"{BASE}+none@512": 0.3, f"{BASE}+pi@4096": 0.4}, only=["QMSum", "Passkey"])
    (data,) = bars.improvement(scored)
    assert _tasks(bars.draw(data)) == ["Passkey", "QMSum"]
