"""The evidence that ships is that of the measured cells."""

import json

import pytest

from experiments.measuring import EVIDENCE, write_evidence
from experiments.ranked import Measurements
from experiments.real_models import RESULTS
from experiments.real_models_page import BASE, LARGER, evidence


@pytest.mark.parametrize("base", [BASE, LARGER])
def test_the_evidence_is_that_of_the_measured_cells(tmp_path, base):
    kept = json.loads(EVIDENCE.read_text(encoding="utf-8"))
    copy = tmp_path / "evidence.json"
    copy.write_text('{"models": {}}', encoding="utf-8")
    write_evidence(copy, base, "absolute", evidence(Measurements(RESULTS, tmp_path).lines, base))
    assert json.loads(copy.read_text(encoding="utf-8"))["models"] == {base: kept["models"][base]}
    assert len(kept["models"][base]) == 7
