"""Damaged structures end in a result or in one of our errors, and never in another exception."""

import json
import os
from pathlib import Path

import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from tests import tiny
from tests.fuzzing import CASES, DEEP, Targets, fuzz

NAMES = ("names", "a base's files", "a saved model's files", "JSON lines")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    made = Targets(tmp_path_factory.mktemp("fuzz"))
    assert tuple(made.all) == NAMES
    return made


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("name", NAMES)
def test_structures_damaged_at_random_give_a_result_or_one_of_our_errors(targets: Targets, name: str) -> None:
    outcomes = fuzz(targets, name)
    assert outcomes["our error"] + outcomes["result"] >= CASES // 2
    assert outcomes["our error"] > 0


@pytest.mark.parametrize("text", ["null", '[{"type": 3}]', "nope", DEEP, "[]"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_list_of_modules_that_is_none_is_told_in_one_sentence(targets: Targets, text, saved) -> None:
    good = targets.saved if saved else targets.base
    with pytest.raises(LongEmbedError):
        targets.load(good, "modules.json", text)


def test_a_folder_that_is_no_model_is_not_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "walk", lambda folder, **_: pytest.fail("the whole disk is read"))
    for name in ("/+pi", "..+pi"):
        with pytest.raises(ModelError, match=r"has no config\.json"):
            longembed.load(name)


def test_a_module_without_path_is_told_in_one_sentence(targets: Targets) -> None:
    modules = json.loads((targets.saved / "modules.json").read_text())
    without = [modules[0], {key: value for key, value in modules[1].items() if key != "path"}]
    with pytest.raises(
        ModelError, match="must list modules with a type, and a path inside the model's own folder, got"
    ):
        targets.load(targets.saved, "modules.json", json.dumps(without))


def test_weights_that_do_not_load_are_told_in_one_sentence(tmp_path: Path) -> None:
    folder = tiny.saved("bert", tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"cannot be read as safetensors|cannot be loaded"):
        longembed.load(f"{folder}+pi", device="cpu")
    weights.unlink()
    torch.save({"x": Path("an object that torch refuses to unpickle")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"cannot be loaded: \w+Error: ") as error:
        longembed.load(f"{folder}+pi", device="cpu")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("other", [None, b"bytes"])
def test_an_input_that_is_no_text_is_told_with_its_place(targets: Targets, other: object) -> None:
    model = longembed.load(targets.saved, device="cpu")
    with pytest.raises(InputError, match=r"all inputs of one call must be texts .*, got a \w+ at place 1"):
        model.encode(["a", other])
