"""`mteb-longembed doctor`: what is there, what is wrong, and an exit status that says so."""

import json
from importlib import metadata

import pytest
import torch

from mteb_longembed import cli
from mteb_longembed.commands import doctor
from mteb_longembed.encoders.attention import kernels
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


def test_each_family_has_its_path_and_the_reason(quick) -> None:
    paths = doctor.devices()["cpu"]
    flash = "padded batches, scaled_dot_product_flash_attention_for_cpu"
    for dtype in ("float32", "bfloat16"):
        assert paths[dtype] == {
            "absolute and rotary": flash,
            "mpnet": flash,
            "t5": "padded batches, scaled_dot_product_attention, biases in blocks",
            "se, rerope and dca": flash,
            "why padded": "only CUDA and ROCm devices run packed batches",
        }


def test_the_kernel_that_is_named_is_the_one_that_runs(quick) -> None:
    q = torch.zeros(1, 1, 4, 64)
    with torch.profiler.profile() as seen:
        kernels.attend(q, q, q, scale=1.0)
    named = doctor.devices()["cpu"]["float32"]["absolute and rotary"].rpartition(" ")[2]
    assert named in "".join(event.key for event in seen.key_averages())


@pytest.mark.parametrize(
    ("capability", "dtype", "paths", "why"),
    [
        ((9, 0), "bfloat16", {"absolute and rotary": "packed", "mpnet": "padded"}, None),
        ((9, 0), "float32", {"absolute and rotary": "padded", "t5": "blocks"}, ":dtype=bf16 is the faster"),
        ((7, 5), "float32", {"se, rerope and dca": "efficient", "t5": "blocks"}, "capability 8.0, got 7.5"),
    ],
)
def test_on_a_gpu_it_says_what_half_precision_is_for(capability, dtype, paths, why) -> None:
    with Accelerator("GPU", capability=capability).present() as gpu:
        reported = doctor._paths(str(gpu.device))[dtype]
    assert all(path in reported[name] for name, path in paths.items())
    assert (why is None) == ("why padded" not in reported) and (why or "") in reported.get("why padded", "")


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
