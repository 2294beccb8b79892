from pathlib import Path
from typing import Any

import pytest
import torch

from mteb_longembed.encoders import compute_type
from tests.comparing.conftest import compare

BF16 = torch.bfloat16


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
    machine.products[BF16] = machine.speeds[BF16] = 1.0
    assert of_base(base, task, tmp_path)[0] == names


@pytest.mark.parametrize("slow", ["products", "the model", "a short run"])
def test_otherwise_nothing_changes(base, task, tmp_path, machine, slow) -> None:
    if slow == "products":
        machine.products[BF16] = 1.1
    elif slow == "the model":
        machine.speeds[BF16] = 1.9 * machine.speeds[torch.float32]
    else:
        machine.products = {torch.float32: 1e12, BF16: 2e12}
    names, lines = of_base(base, task, tmp_path)
    assert names == ["+none@16", "+pi@128"] and not lines
    assert bool(machine.measured) == (slow == "the model")


def test_a_short_run_says_nothing_of_a_longer_one_on_the_same_data(
    base, task, tmp_path, machine, monkeypatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(compute_type, "LEAST_SECONDS", 1e9)
        assert of_base(base, task, tmp_path)[0] == ["+none@16", "+pi@128"]
    assert of_base(base, task, tmp_path)[0] == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]


def test_a_type_that_is_asked_for_is_not_measured(base, task, tmp_path, machine) -> None:
    assert of_base(base, task, tmp_path, dtype="fp32")[0] == ["+none@16", "+pi@128"]
    assert of_base(base, task, tmp_path, dtype="bf16")[0] == ["+none@16:dtype=bf16", "+pi@128:dtype=bf16"]
    assert machine.measured == []
