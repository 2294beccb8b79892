import pandas as pd

from mteb_longembed.reports.figures import heat_maps
from mteb_longembed.reports.scores.scoreboard import accuracies, score_lines
from tests.reports.made import BASE, lines, rows


def test_the_best_mean_stands_first_and_what_was_not_measured_counts_as_0():
    whole = rows(f"{BASE}+none@512", 0.3) + rows(f"{BASE}+pi@4096", 0.5)
    partial = rows("a/b", 1.0, only=["Passkey"], splits=["test_256"])
    cells = accuracies(score_lines(whole + partial), "Passkey")
    assert list(cells.index) == [f"{BASE}+pi@4096", f"{BASE}+none@512", "a/b"]
    assert {score.mean for score in cells.iloc[0]} == {50.0}
    assert cells.loc["a/b", 256].mean == 100 and pd.isna(cells.loc["a/b", 512])


def test_a_heat_map_has_the_numbers_of_its_cells_and_nothing_where_there_is_none():
    drawings = heat_maps.draw(lines({BASE: 0.3}, splits=["test_256"], only=["Needle"]))
    assert [drawing.key for drawing in drawings] == ["heatmap-needle-generated"]
    (axes,) = drawings[0].figure.axes
    assert [text.get_text() for text in axes.texts] == ["30"]
    assert list(drawings[0].tips.values()) == [f"{BASE}, 256 tokens: 30.0 %, 95 % interval 19 to 44"]
