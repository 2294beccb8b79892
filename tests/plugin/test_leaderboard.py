"""mteb's leaderboard of a folder of results, served by our command and read as its users read it."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from mteb.models.model_meta import ModelMeta

from mteb_longembed import cli
from tests.reports.made import write_result

gradio_client = pytest.importorskip("gradio_client")

ROOT = str(Path(__file__).parents[2])
OURS, BASE = "intfloat/e5-base-v2+ntk@4096", "intfloat/e5-base-v2"
SCORES = {
    "LongEmbedPasskey": {"test_256": 0.9, "test_512": 0.5},
    "LongEmbedNeedle": {"test_256": 0.3, "test_512": 0.2},
}
#: Where the tables begin among the outputs of the application's callback.
SUMMARY = 9
#: By hand: passkey 70, needle 25; their mean 47.5.
ROW = [
    "1", "e5-base-v2+ntk@4096", "100%", "0.500", "2.0", "", "4096", "47.50", "47.50", "47.50",
]  # fmt: skip


def written(folder: Path, task: str, scores: dict[str, float], name: str, **experiment: object) -> None:
    """A result, with all that mteb says of a model."""
    path = write_result(folder / "results", task, scores, name=name)
    if experiment:
        kept = path.parent / "experiments" / "ntk" / path.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        path = path.rename(kept)
    facts = {
        "name": name,
        "experiment_kwargs": experiment or None,
        "revision": "r1",
        "n_parameters": 2_000_000_000,
        "training_datasets": ["MSMARCO"],
    }
    facts["max_tokens"] = 4096.0 if experiment else 512.0
    described = ModelMeta.create_empty().to_dict() | facts | {"n_embedding_parameters": 1_500_000_000}
    path.with_name("model_meta.json").write_text(json.dumps(described))


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """The page of a base and its strategy; the base is on mteb's benchmark too."""
    folder = tmp_path_factory.mktemp("folder")
    for task, scores in SCORES.items():
        written(folder, task, scores, BASE, strategy="ntk", target_len=4096, algorithm="le3")
        written(folder, task, {split: score / 2 for split, score in scores.items()}, BASE)
    written(folder, "LEMBPasskeyRetrieval", {"test_256": 0.25}, BASE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # a hub and a proxy that nobody serves: each request would be refused; and a public link is asked for
    nobody = {"HF_ENDPOINT": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1", "GRADIO_SHARE": "True"}
    env = {**os.environ, **nobody, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mteb_longembed", "leaderboard", str(folder), "--port", str(port)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line == f"http://127.0.0.1:{port}/ shows {folder}; Ctrl-C stops it.\n"
            yield line.split()[0]
        finally:
            process.terminate()


def tables(address: str, button: str) -> list[list[dict[str, str]]]:
    """The rows of summary and tasks as they are shown, from the application's API after a click into the menu."""
    page = gradio_client.Client(address, verbose=False)
    page.predict(api_name=button)
    outputs = page.predict(api_name="/on_benchmark_select")
    values = [output["value"] for output in outputs[SUMMARY : SUMMARY + 2]]
    return [
        [dict(zip(value["headers"], row, strict=True)) for row in value["metadata"]["display_value"]]
        for value in values
    ]


@pytest.mark.long
def test_our_benchmark_has_a_strategy_beside_its_base(address) -> None:
    (row, base), (tasks, _) = tables(address, "/_update_value")
    assert list(row.values()) == ROW
    assert (base["Rank (Borda)"], base["Model"], base["Mean (Task)"]) == (
        "2",
        f"[e5-base-v2](https://huggingface.co/{BASE})",
        "23.75",
    )
    assert tasks == {"Model": ROW[1], "LongEmbedPasskey": "70.00", "LongEmbedNeedle": "25.00"}


@pytest.mark.long
def test_the_benchmark_of_mteb_has_its_own_model(address) -> None:
    (row,), (tasks,) = tables(address, "/_update_value_2")
    assert (row["Mean (Task)"], row["Max Tokens"], tasks["Model"]) == ("25.00", "512", "e5-base-v2")


def refused(capsys: pytest.CaptureFixture[str], *options: object) -> str:
    """The one sentence with which the command refuses."""
    assert cli.main(["leaderboard", *map(str, options)]) == 2
    return capsys.readouterr().err


def test_what_cannot_be_shown_is_told_in_one_sentence(tmp_path, capsys) -> None:
    assert "no results of LongEmbed tasks were found" in refused(capsys, tmp_path)
    assert "there is no folder" in refused(capsys, tmp_path / "misspelt")
    assert not (tmp_path / "misspelt").exists()
    written(tmp_path, "LongEmbedPasskey", {"test_256": 0.9}, OURS)
    next(tmp_path.rglob("LongEmbedPasskey.json")).write_text('{"scores"')
    assert re.search(
        r"cannot read all results in .*: mteb-longembed report .* names the file", refused(capsys, tmp_path)
    )


@pytest.mark.parametrize("error", [OSError("taken"), OverflowError("beyond 65535")])
def test_a_port_that_cannot_be_had_is_told_in_one_sentence(error, tmp_path, monkeypatch, capsys) -> None:
    written(tmp_path, "LongEmbedPasskey", {"test_256": 0.9}, OURS)
    # in the place of our module, which imports gradio for seconds
    page = Mock(make_app=Mock(return_value=Mock(launch=Mock(side_effect=error))))
    monkeypatch.setitem(sys.modules, "mteb_longembed.plugin.leaderboard", page)
    assert "--port must be free on this machine, got 80" in refused(capsys, tmp_path, "--port", 80)


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, capsys) -> None:
    written(tmp_path, "LongEmbedPasskey", {"test_256": 0.9}, OURS)
    monkeypatch.setitem(sys.modules, "gradio", None)
    for name in ("mteb.leaderboard", "mteb.leaderboard.app", "mteb_longembed.plugin.leaderboard"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert "needs gradio: pip install 'mteb-longembed[leaderboard]'" in refused(capsys, tmp_path)
