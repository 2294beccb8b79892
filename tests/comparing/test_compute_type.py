from pathlib import Path
from typing import Any

import pytest

from mteb_longembed.comparing import compute_type
from tests.comparing.conftest import compare

FP32 = 1000.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The tokens a second of each type; every run takes a day."""
    known = {"torch.float32": FP32, "torch.bfloat16": 2.5 * FP32}
    monkeypatch.setattr(
        compute_type, "measure", lambda model, texts: (known[str(model.trunk.model.dtype)], 4)
    )
    monkeypatch.setattr(compute_type, "LEAST_SECONDS", 0.0)
    return known


def of_base(base: str, task: Any, out: Path, **options: Any) -> tuple[list[str], list[str]]:
    """The names of a comparison's candidates behind the base, and what it says about types."""
    lines: list[str] = []
    result = compare([base], task, out, strategies=["pi"], on_message=lines.append, **options)
    names = [str(name).removeprefix(base) for name in result.summary.index]
    return sorted(names), [line for line in lines if "bf16" in line]


def test_where_bf16_is_twice_as_fast_names_carry_it_and_one_line_says_both_times(
    base, task, tmp_path, machine
) -> None:
    names, (line,) = of_base(base, task, tmp_path)
    assert names == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]
    assert line.startswith(f"{base} runs in bf16: about 0 seconds, and 1 seconds in fp32; vectors agree")
    assert float(line.partition("cosine ")[2][:6]) > 0.999 and line.endswith("--dtype fp32 keeps fp32.")
    # the same command chooses the same type, whatever the machine does meanwhile
    machine["torch.bfloat16"] = FP32
    assert of_base(base, task, tmp_path)[0] == names


@pytest.mark.parametrize("slow", ["the gain", "the cosine", "a short run"])
def test_otherwise_nothing_changes(base, task, tmp_path, machine, monkeypatch, slow) -> None:
    if slow == "the gain":
        machine["torch.bfloat16"] = 1.9 * FP32
    elif slow == "the cosine":
        monkeypatch.setattr(compute_type, "LEAST_COSINE", 1.01)
    else:
        monkeypatch.setattr(compute_type, "LEAST_SECONDS", 60.0)
    names, lines = of_base(base, task, tmp_path)
    assert names == ["+none@16", "+pi@128"] and not lines


def test_a_type_that_is_asked_for_is_not_measured(base, task, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(compute_type, "speeds", pytest.fail)
    assert of_base(base, task, tmp_path, dtype="fp32")[0] == ["+none@16", "+pi@128"]
    assert of_base(base, task, tmp_path, dtype="bf16")[0] == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]
