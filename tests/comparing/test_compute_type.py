from pathlib import Path
from typing import Any

import torch

from tests.comparing.conftest import compare


def of_base(base: str, task: Any, out: Path, **options: Any) -> tuple[list[str], list[str]]:
    """The names of a comparison's candidates behind the base, and what it says about types."""
    lines: list[str] = []
    result = compare([base], task, out, strategies=["pi"], on_message=lines.append, **options)
    names = [str(name).removeprefix(base) for name in result.summary.index]
    return sorted(names), [line for line in lines if "bf16" in line]


def test_where_bf16_is_twice_as_fast_names_carry_it_and_one_line_says_so(
    base, task, tmp_path, machine
) -> None:
    names, (line,) = of_base(base, task, tmp_path)
    assert names == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]
    assert line.startswith(f"{base} runs in bf16: about 0 seconds, and 1 seconds in fp32; vectors agree")


def test_in_a_short_run_nothing_changes(base, task, tmp_path, machine) -> None:
    machine.products = {torch.float32: 1e12, torch.bfloat16: 2e12}
    assert of_base(base, task, tmp_path) == (["+none@16", "+pi@128"], [])
    assert machine.measured == []


def test_a_type_that_is_asked_for_is_not_measured(base, task, tmp_path, machine) -> None:
    assert of_base(base, task, tmp_path, dtype="fp32")[0] == ["+none@16", "+pi@128"]
    assert of_base(base, task, tmp_path, dtype="bf16")[0] == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]
    assert machine.measured == []
