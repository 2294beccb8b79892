"""The page and figure of the findings, from scores whose verdicts are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from training.evidence import write_evidence
from training.findings import grid, model_name, series
from training.findings_figure import draw
from training.findings_page import findings, task_table, verdict
from training.table import against, lengths_of

BASES = ("mini-ape", "mini-rope")
TASK = "LongEmbedPasskey-queries100"


def hits(right: int, n: int = 100, start: int = 0) -> dict[str, float]:
    """`right` of `n` queries found, from number `start` on."""
    return {f"q{i}": float(start <= i < start + right) for i in range(n)}


@pytest.fixture
def scores():
    found = {}
    for base in BASES:
        found[TASK, base, "", "512"] = hits(90)
        found[TASK, base, "", "4096"] = hits(8)
    found[TASK, "mini-ape", "rp", "4096"] = hits(60)
    found[TASK, "mini-ape", "pi", "4096"] = hits(55)
    found[TASK, "mini-ape", "tuned:out/tuned-pi", "4096"] = hits(75)
    found[TASK, "mini-rope", "none", "4096"] = hits(91)
    found[TASK, "mini-rope", "ntk", "4096"] = hits(92)
    return found


def test_the_verdicts_follow_the_paired_tests(scores):
    said = "\n".join(findings(scores, TASK, BASES))
    lines = {line.split(":")[0]: line for line in said.splitlines()}
    assert lines["Tuning helps `pi` at 4096"].endswith("**Shown.**")
    assert "Not shown" in lines["`ntk` is better than plain extrapolation at 4096"]
    (rotary,) = [line for line in said.splitlines() if line.startswith("The best strategy on rotary")]
    assert rotary.endswith("**Shown.**") and "75 against 92" in rotary
    assert (
        said.count("collapses") == 2
        and "Not shown" not in lines["A base collapses beyond its trained length"]
    )


def test_a_difference_the_wrong_way_round_does_not_show(scores):
    compared = against(scores, TASK, "4096", ("mini-rope", "none"), ("mini-ape", "rp"))
    assert "the opposite is true" in verdict(compared)


def test_the_table_marks_what_differs_from_the_base_and_leaves_unmeasured_cells_empty(scores):
    rows = {row.split("|")[1].strip(): row for row in task_table(scores, TASK, BASES).splitlines()}
    assert rows["`mini-ape+rp`"].split("|")[2].strip() == ""
    assert rows["`mini-ape+rp`"].rstrip(" |").endswith("+")
    assert not rows["`mini-ape`"].rstrip(" |").endswith("+")
    assert lengths_of(scores, TASK) == ["512", "4096"]


def test_the_figure_is_written_with_holes_in_the_scores(scores, tmp_path):
    draw(tmp_path / "findings.png", scores, BASES)
    assert (tmp_path / "findings.png").read_bytes()[:4] == b"\x89PNG"


def test_every_line_is_a_model_that_exists_and_a_length_beyond_the_target_raises_it():
    lines = series(("none", "rp", "se"), BASES, ["out/tuned-pi"])
    assert ("mini-ape", "none") not in lines and ("mini-ape", "se") not in lines
    assert ("mini-rope", "none") in lines and ("mini-ape", "tuned:out/tuned-pi") in lines
    assert model_name("mini-rope", "se", 512) == "mini-rope+se@4096"
    assert model_name("mini-rope", "se", 16384) == "mini-rope+se@16384"
    assert model_name("mini-ape", "tuned:out/tuned-pi", 4096) == "out/tuned-pi"
    cells = grid([TASK], lines, [512], [8192])
    assert (TASK, "mini-rope", "se", "8192") in cells and (TASK, "mini-ape", "rp", "8192") not in cells
    assert np.all([cell.split in ("test_512", "test_8192") for cell in cells.values()])


def test_the_evidence_has_both_bases_and_no_tuned_model(scores, tmp_path):
    write_evidence(tmp_path / "evidence.json", scores, TASK, BASES, 4096)
    found = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert set(found["absolute"]) == {"model", "base", "rp", "pi"}
    assert found["rotary"]["ntk"].startswith("92 (")
