"""The pages of results, from scores whose verdicts are known, and one cell from end to end."""

import json

import pytest

from experiments.findings import grid, series
from experiments.findings_page import draw, findings, lengths_of, task_table, verdict, write_page
from experiments.measuring import EVIDENCE, write_evidence
from experiments.ranked import Measurements
from experiments.real_models import RESULTS
from experiments.real_models_page import BASE, LARGER, evidence
from experiments.scores import QMSUM, Cell, compare, measure

BASES = ("mini-ape", "mini-rope")
TASK = "LongEmbedPasskey-queries100"


def hits(right: int, n: int = 100) -> dict[str, float]:
    """`right` of `n` queries right."""
    return {f"q{i}": float(i < right) for i in range(n)}


@pytest.fixture
def scores():
    means = {
        ("mini-ape", ""): 8, ("mini-ape", "rp"): 60, ("mini-ape", "pi"): 55,
        ("mini-rope", ""): 8, ("mini-rope", "none"): 91, ("mini-rope", "ntk"): 92,
    }  # fmt: skip
    cells = {(TASK, base, "", "512"): hits(90) for base in BASES}
    return cells | {(TASK, *line, "4096"): hits(right) for line, right in means.items()}


def test_the_verdicts_follow_the_paired_tests(scores):
    rotary, extrapolation = findings(scores, TASK, BASES)
    assert rotary.endswith("**Shown.**") and "60 against 92" in rotary
    assert extrapolation.startswith("`ntk` is better") and "Not shown" in extrapolation
    wrong_way = compare(scores[TASK, "mini-rope", "none", "4096"], scores[TASK, "mini-ape", "rp", "4096"])
    assert "the opposite is true" in verdict(wrong_way)
    with pytest.raises(ValueError, match="the same queries"):
        compare(hits(1), hits(1, n=2))


def test_the_table_marks_what_differs_from_the_base_and_leaves_unmeasured_cells_empty(scores):
    rows = {row.split("|")[1].strip(): row for row in task_table(scores, TASK, BASES).splitlines()}
    assert rows["`mini-ape+rp`"].split("|")[2].strip() == ""
    assert rows["`mini-ape+rp`"].rstrip(" |").endswith("+")
    assert not rows["`mini-ape`"].rstrip(" |").endswith("+")
    assert lengths_of(scores, TASK) == ["512", "4096"]


def test_page_and_figure_are_written_with_holes_in_the_scores(scores, tmp_path):
    draw(tmp_path / "page.png", scores, BASES)
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"
    write_page(tmp_path / "page.md", "page.png", scores, BASES)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"## {TASK}\n\nAcc@1, 100 queries a column." in page and "(page.png)" in page


def test_every_line_is_a_model_that_exists_and_a_length_beyond_the_target_raises_it():
    lines = series(("none", "rp", "se"), BASES)
    absolute, rotary = [("mini-ape", s) for s in ("", "rp")], ("", "none", "rp", "se")
    assert lines == [*absolute, *(("mini-rope", s) for s in rotary)]
    cells = grid([TASK], lines, [512, 8192], with_qmsum=True)
    assert cells[TASK, "mini-rope", "se", "512"] == Cell("mini-rope+se@4096", TASK, "test_512")
    assert cells[TASK, "mini-rope", "se", "8192"].model == "mini-rope+se@8192"
    assert cells[QMSUM, "mini-ape", "", "all"] == Cell("mini-ape", QMSUM, "test")


@pytest.mark.parametrize("base", [BASE, LARGER])
def test_the_evidence_is_that_of_the_measured_cells(tmp_path, base):
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    copy = tmp_path / "evidence.json"
    copy.write_text('{"models": {}}', encoding="utf-8")
    write_evidence(copy, base, "absolute", evidence(Measurements(RESULTS, tmp_path).lines, base))
    assert json.loads(copy.read_text(encoding="utf-8"))["models"] == {base: kept["models"][base]}
    assert len(kept["models"][base]) == 7


def test_a_cell_is_measured_once(tmp_path):
    cell = Cell("mini-ape+pcw@1024:size=64,vectors=window", "LongEmbedPasskey-docs50", "test_256")
    query = next(iter(measure(cell, tmp_path)))
    (predictions,) = (tmp_path / "predictions").glob("*pcw*/*.json")
    kept = json.loads(predictions.read_text(encoding="utf-8"))
    kept["default"]["test_256"][query] = {"no such document": 1.0}
    predictions.write_text(json.dumps(kept), encoding="utf-8")
    assert measure(cell, tmp_path)[query] == 0
