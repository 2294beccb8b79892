from __future__ import annotations

import json
from pathlib import Path

from mteb_longembed import cli
from mteb_longembed.comparing import candidates

ROOT = Path(__file__).parents[2]


def test_the_evidence_is_that_of_the_findings() -> None:
    evidence = json.loads(Path(candidates.__file__).with_name("evidence.json").read_text(encoding="utf-8"))
    findings = (
        (ROOT / "training" / "findings.md").read_text(encoding="utf-8").partition("## LongEmbedNeedle")[0]
    )
    rows = [line for line in findings.splitlines() if line.startswith("| `mini-")]
    for family in ("absolute", "rotary"):
        measured = evidence[family]
        for key, text in measured.items():
            if key != "model":
                name = measured["model"] if key == "base" else f"{measured['model']}+{key}"
                (row,) = [row for row in rows if row.startswith(f"| `{name}`") and "tuned" not in row]
                assert text in row.split("|")[-2], name


def test_what_fits_a_model_is_listed_the_best_measured_first(capsys) -> None:
    assert cli.main(["list", "fit", "mini-rope"]) == 0
    printed = capsys.readouterr().out
    listed = [line.split() for line in printed.splitlines() if line.startswith("  mini-rope+")]
    scores = [int(score) for _, score, *_ in listed if score.isdigit()]
    assert len(scores) >= 6 and scores == sorted(scores, reverse=True)
    names = [name for name, *_ in listed]
    assert {"mini-rope+none@4096", "mini-rope+se"} < set(names[: len(scores)]) and "mini-rope+dca" in names
    assert "rotary positions, trained on 512 tokens" in printed and "not on your model" in printed
    assert cli.main(["list", "fit", "mini-ape"]) == 0
    assert "Does not fit: none@4096, se, rerope, dca" in capsys.readouterr().out


def test_a_model_goes_with_fit_only(capsys) -> None:
    assert cli.main(["list", "tasks", "mini-rope"]) == 2
    assert "a model can only follow fit" in capsys.readouterr().err
