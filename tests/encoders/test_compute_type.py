"""bf16 is chosen where it is faster and right, and nothing is tried where that cannot be."""

from pathlib import Path

import pytest
import torch
from mteb_longembed.encoders.compute_type import why_bf16

import mteb_longembed as longembed
from mteb_longembed.encoders import compute_type
from mteb_longembed.encoders.checkpoint import ModelSpec
from tests import tiny

TEXTS = [tiny.text(40, seed) for seed in range(4)]
FP32, BF16 = torch.float32, torch.bfloat16


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model may be loaded."""
    monkeypatch.setattr(compute_type, "build", pytest.fail)


def why(name: str, texts: list[str] = TEXTS) -> str | None:
    return why_bf16(ModelSpec.parse(name), texts, "cpu")


def test_a_sentence_says_both_times_and_a_second_call_repeats_it_unmeasured(base_folder, machine) -> None:
    name = f"{base_folder}+pi@64"
    said = why(name)
    # 160 tokens
    assert said is not None
    assert said.startswith(f"{name} runs in bf16: about 0 seconds, and 0 seconds in fp32; ")
    assert float(said.partition("cosine ")[2][:6]) > 0.999 and said.endswith("--dtype fp32 keeps fp32.")
    assert machine.measured == [FP32, BF16] * 2
    machine.products[BF16] = machine.speeds[BF16] = 0.0
    assert why(name) == said and len(machine.measured) == 4
    assert why(f"{base_folder}+ntk@64") is None  # another model is measured anew


@pytest.mark.usefixtures("no_model")
def test_where_products_gain_nothing_no_model_is_loaded(base_folder, machine) -> None:
    machine.products[BF16] = 1.1 * machine.products[FP32]
    assert why(f"{base_folder}+pi@64") is None


def test_a_short_run_tries_nothing_and_says_nothing_of_a_longer_one(base_folder, machine, monkeypatch):
    operations = 24 * 2 * 32**2 * 160  # of all texts: 2 layers of width 32
    machine.products = {FP32: operations / 50, BF16: operations / 10}
    with monkeypatch.context() as patched:
        patched.setattr(compute_type, "build", pytest.fail)
        assert why(f"{base_folder}+pi@64") is None
    assert why(f"{base_folder}+pi@64", TEXTS * 2) is not None


def test_it_must_be_twice_as_fast_and_vectors_must_agree(base_folder, machine, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0")
    name = f"{base_folder}+pi@64"
    machine.speeds[BF16] = 1.9 * machine.speeds[FP32]
    assert why(name) is None
    machine.speeds[BF16] = 2.0 * machine.speeds[FP32]
    assert why(name) is not None
    monkeypatch.setattr(compute_type, "LEAST_COSINE", 1.01)
    assert why(name) is None


@pytest.mark.usefixtures("no_model")
def test_a_type_of_the_name_or_of_the_weights_and_a_saved_model_stay(base_folder, machine, tmp_path) -> None:
    assert why(f"{base_folder}+pi@64:dtype=fp16") is None
    half = longembed.load(f"{base_folder}+none:dtype=bf16", device="cpu")
    half.save(str(tmp_path / "extended"))
    assert why(str(tmp_path / "extended")) is None
    assert machine.measured == []


def test_a_machine_measures_its_own_products_and_models(base_folder, monkeypatch, tmp_path: Path) -> None:
    """Nothing is set here but the least gains."""
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    for least in ("LEAST_GAIN", "LEAST_GAIN_OF_PRODUCTS", "LEAST_SECONDS"):
        monkeypatch.setattr(compute_type, least, 0.0)
    assert why(f"{base_folder}+pi@64") is not None
