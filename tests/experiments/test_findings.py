"""The pages of results, from scores whose verdicts are known, and one cell from end to end."""

import json

import pytest

from experiments import twin_decision
from experiments.findings import grid, series
from experiments.measuring import EVIDENCE, write_evidence
from experiments.ranked import Measurements
from experiments.real_models import RESULTS
from experiments.real_models_page import BASE, TWIN, evidence
from experiments.scores import QMSUM, Cell, measure

BASES = ("mini-ape", "mini-rope")
TASK = "LongEmbedPasskey-queries100"


def test_every_line_is_a_model_that_exists_and_a_length_beyond_the_target_raises_it():
    lines = series(("none", "rp", "se"), BASES)
    absolute, rotary = [("mini-ape", s) for s in ("", "rp")], ("", "none", "rp", "se")
    assert lines == [*absolute, *(("mini-rope", s) for s in rotary)]
    cells = grid([TASK], lines, [512, 8192], with_qmsum=True)
    assert cells[TASK, "mini-rope", "se", "512"] == Cell("mini-rope+se@4096", TASK, "test_512")
    assert cells[TASK, "mini-rope", "se", "8192"].model == "mini-rope+se@8192"
    assert cells[QMSUM, "mini-ape", "", "all"] == Cell("mini-ape", QMSUM, "test")


@pytest.mark.parametrize(("family", "base"), [("absolute", BASE), ("rotary", TWIN)])
def test_the_evidence_is_that_of_the_measured_cells(family, base, tmp_path):
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))[family]
    lines = Measurements(RESULTS, tmp_path).lines | Measurements(twin_decision.RESULTS, tmp_path).lines
    scores = evidence(lines, base)
    assert scores["base"] == {"absolute": "16.3 (15–18)", "rotary": "16.2 (15–18)"}[family]
    write_evidence(tmp_path / "evidence.json", family, kept["model"], kept["measured"], scores)
    assert json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8")) == {family: kept}


def test_a_cell_is_measured_once(tmp_path):
    cell = Cell("mini-ape+pcw@1024:size=64,vectors=window", "LongEmbedPasskey-docs50", "test_256")
    query = next(iter(measure(cell, tmp_path)))
    (predictions,) = (tmp_path / "predictions").glob("*pcw*/*.json")
    kept = json.loads(predictions.read_text(encoding="utf-8"))
    kept["default"]["test_256"][query] = {"no such document": 1.0}
    predictions.write_text(json.dumps(kept), encoding="utf-8")
    assert measure(cell, tmp_path)[query] == 0
