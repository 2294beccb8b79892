"""`mteb-longembed doctor`: what is there, what is wrong, and an exit status that says so."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
import torch

from mteb_longembed import cli
from mteb_longembed.commands import doctor
from mteb_longembed.encoders.attention import devices as device_facts


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
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["torch"] == metadata.version("torch")
    assert found["hub"]["answers"] is False and found["hub"]["offline mode (HF_HUB_OFFLINE)"] is True
    assert found["store"] == {"folder": str(quick / "store"), "bytes": 1000, "limit in bytes": 2 << 30}
    assert {section["folder"] for section in found["caches"].values()} == {
        str(quick / "hub"),
        str(quick / "mteb"),
    }
    assert found["problems"] == []


def test_the_kernels_are_those_that_run(quick) -> None:
    found = doctor.devices()
    assert found["cpu"] == {
        "float32": "padded batches, scaled_dot_product_flash_attention_for_cpu",
        "bfloat16": "padded batches, scaled_dot_product_flash_attention_for_cpu",
    }


def test_a_device_that_packs_is_told_so(quick, monkeypatch) -> None:
    monkeypatch.setattr(device_facts, "packs", lambda device, dtype, head=64: dtype == torch.bfloat16)
    found = doctor.devices()["cpu"]
    assert found["bfloat16"] == "packed batches, varlen_attn (FlashAttention by documents)"
    assert found["float32"].startswith("padded batches")


def test_a_problem_is_a_sentence_and_status_one(quick, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_AUTOLOAD", "0")
    assert cli.main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert (
        "problem: the mteb command does not find our tasks and models, because MTEB_LONGEMBED_AUTOLOAD=0"
        in shown
    )
    assert "limit in bytes  2.00 GiB" in shown


def test_a_wrong_setting_of_the_store_is_its_own_sentence(quick, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE_GIB", "much")
    assert cli.main(["doctor"]) == 2
    assert "MTEB_LONGEMBED_STORE_GIB must be a positive number of GiB, got 'much'" in capsys.readouterr().err
