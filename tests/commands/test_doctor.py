"""`mteb-longembed doctor`: what is there, what is wrong, and an exit status that says so."""

import json
import re
from importlib import metadata

import pytest

from mteb_longembed import cli
from mteb_longembed.commands import doctor
from tests.encoders.devices.simulated import Accelerator


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """No network, and small folders."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("MTEB_LONGEMBED_STORE_GIB", "2")
    return tmp_path


def test_everything_is_in_the_json(quick, capsys, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "autoload_state", lambda: {"a new Python watches for mteb": True})
    (quick / "store" / "ab").mkdir(parents=True)
    (quick / "store" / "ab" / "one.rec").write_bytes(bytes(1000))
    assert cli.main(["doctor", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["versions"]["torch"] == metadata.version("torch")
    assert output["hub"]["answers"] is False and output["hub"]["offline mode (HF_HUB_OFFLINE)"] is True
    assert output["store"] == {"folder": str(quick / "store"), "bytes": 1000, "limit in bytes": 2 << 30}
    folders = {section["folder"] for section in output["caches"].values()}
    assert folders == {str(quick / "hub"), str(quick / "mteb")}
    assert output["problems"] == []


@pytest.mark.parametrize(
    ("capability", "dtype", "form"),
    [
        (None, "float32", "padded batches: only CUDA and ROCm devices run packed batches"),
        ((9, 0), "bfloat16", "packed batches"),
        ((9, 0), "float32", "padded batches: .* :dtype=bf16 is the faster form here"),
        ((7, 5), "float32", "padded batches: packed batches need capability 8.0, got 7.5"),
    ],
)
def test_a_device_packs_or_the_reason_is_said(capability, dtype, form) -> None:
    if capability is None:
        found = doctor.devices()["cpu"]
    else:
        with Accelerator("GPU", capability=capability).present() as gpu:
            found = doctor._forms(str(gpu.device))
    assert re.match(form, found[dtype])


def test_a_problem_is_a_sentence_and_status_one(quick, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_AUTOLOAD", "0")
    assert cli.main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "problem: the mteb command does not find our tasks" in shown and "_AUTOLOAD=0" in shown
    assert "limit in bytes  2.00 GiB" in shown


def test_a_wrong_setting_of_the_store_is_its_own_sentence(quick, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE_GIB", "much")
    assert cli.main(["doctor"]) == 2
    assert "MTEB_LONGEMBED_STORE_GIB must be a positive number of GiB, got 'much'" in capsys.readouterr().err


def test_mteb_core_beside_mteb_is_named(monkeypatch) -> None:
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.26" if name == "mteb-core" else version(name))
    assert "mteb-core is installed beside mteb" in doctor.versions()["problem"]
