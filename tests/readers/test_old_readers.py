"""Our folders, opened by sentence-transformers 3.4.1 with transformers 4.57.6, and by a server on this machine.

`tox -e old-readers` makes the environment of the old versions and names its Python in `LONGEMBED_OLD_READERS`.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import mteb_longembed
from mteb_longembed.encoders.export import export
from tests import tiny
from tests.encoders.test_rotary import GEMMA, GQA, LAYERS, LINEAR, LO, LT

pytestmark = pytest.mark.readers
#: Documents of which some are longer than the bases were trained on, and unlike one another.
TEXTS = [
    " ".join(tiny.WORDS[(7 * i + 13 * j) % 400] for j in range(n)) for i, n in enumerate((3, 12, 30, 55))
]
CORPUS = [" ".join(tiny.WORDS[(5 * i + 11 * j) % 400] for j in range(40)) for i in range(20)]
LONG = "The keeper of the lighthouse wrote down every ship that passed. " * 60
HALF = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}

#: name -> model type, configuration
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {"dense": True, "prompts": tiny.PROMPTS}),
    "roberta": ("roberta", {"pooling": "cls"}),
    "llama": ("llama", GQA),
    "linear": ("llama", {**GQA, "rope_parameters": LINEAR}),
    "partial": ("stablelm", {**GQA, "rope_parameters": HALF}),
    "gemma": ("gemma3_text", GEMMA),
    "modernbert": ("modernbert", {**LAYERS, "local_attention": 12}),
}
EXTENDED = [
    "bert+pi", "bert+ntk", "roberta+pi", "llama+pi", "llama+ntk", "llama+yarn", "linear+pi", "partial+pi",
    "gemma+pi", "gemma+ntk", "modernbert+ntk", "modernbert+pi",
]  # fmt: skip
ADAPTED = ["adapted", "adapted with prompts", "adapted and extended"]
#: What old versions cannot open or do, and a word of the sentence that says so.
SAID = {"modernbert+pi": "rope scaling"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """name -> the folder, what was said of it, and texts with their prompt."""
    made: dict[str, Any] = {}

    def keep(
        name: str, model: str | SentenceTransformer, texts: list[str], prompt: str | None = None
    ) -> None:
        folder = tmp_path_factory.mktemp("exported") / "folder"
        made[name] = {"folder": str(folder), "said": export(model, folder), "texts": texts, "prompt": prompt}

    bases = {
        name: tiny.saved(kind, tmp_path_factory.mktemp(name), **config)
        for name, (kind, config) in BASES.items()
    }
    for name in EXTENDED:
        base, key = name.split("+")
        prompt = tiny.PROMPTS["document"] if base == "bert" else None
        model = mteb_longembed.extend(bases[base], key, LT, LO, logn=False, device="cpu")
        keep(name, model, TEXTS, prompt)
    keep("mini-ape", "mini-ape+pi@1k:logn=off", ["Who keeps the lighthouse?", LONG])
    keep("adapted", tiny.adapted("mini-ape", CORPUS), TEXTS)
    prompted = tiny.saved("bert", tmp_path_factory.mktemp("prompted"), prompts=tiny.PROMPTS)
    keep("adapted with prompts", tiny.adapted(prompted, CORPUS), TEXTS, tiny.PROMPTS["query"])
    keep("adapted and extended", tiny.adapted("mini-ape+pi@1k:logn=off", CORPUS), [*TEXTS, LONG])
    return made


@pytest.fixture(scope="module")
def python() -> Path:
    return Path(os.environ["LONGEMBED_OLD_READERS"])


@pytest.fixture(scope="module")
def read_by_old(exported: dict[str, Any], python: Path, tmp_path_factory) -> dict[str, np.ndarray]:
    """What the old versions made of all folders."""
    folder = tmp_path_factory.mktemp("read")
    tasks = folder / "tasks.json"
    tasks.write_text(json.dumps(exported))
    script = Path(__file__).with_name("embed.py")
    subprocess.run([python, "-I", script, tasks, folder / "vectors.npz"], check=True, timeout=600)
    with np.load(folder / "vectors.npz") as made:
        return dict(made)


def by_new(task: dict[str, Any]) -> np.ndarray:
    return SentenceTransformer(task["folder"], device="cpu").encode(task["texts"], prompt=task["prompt"])


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    product = (one * other).sum(1)
    return product / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


@pytest.mark.parametrize("name", [*EXTENDED, *ADAPTED, "mini-ape"])
def test_an_old_version_gives_the_same_vectors_or_a_sentence_says_why_not(name, exported, read_by_old):
    got = read_by_old[name]
    if name in SAID:
        assert any(SAID[name] in sentence and " before " in sentence for sentence in exported[name]["said"])
        assert got.shape == () or cosines(got, by_new(exported[name])).min() < 0.99
        return
    assert got.shape, got
    assert cosines(got, by_new(exported[name])).min() > 0.9999


@pytest.fixture(scope="module")
def server(exported: dict[str, Any], python: Path) -> Iterator[Callable[[str], np.ndarray]]:
    """An infinity server of two folders, as a function of their names."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("mini-ape", "adapted")
    command = [python.with_name("infinity_emb"), "v2", "--host", "127.0.0.1", "--port", str(port)]
    for name in names:
        command += ["--model-id", exported[name]["folder"], "--served-model-name", name]
    command += ["--engine", "torch", "--device", "cpu", "--no-bettertransformer"]
    quiet = {"DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, env={**os.environ, **quiet})
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process)

        def embed(name: str) -> np.ndarray:
            body = json.dumps({"model": name, "input": exported[name]["texts"]}).encode()
            headers = {"Content-Type": "application/json"}
            request = Request(f"http://127.0.0.1:{port}/embeddings", body, headers)
            with urlopen(request, timeout=120) as answer:
                return np.array([row["embedding"] for row in json.load(answer)["data"]])

        yield embed
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            urlopen(address, timeout=5).close()
        except URLError:
            time.sleep(1)
        else:
            return
    pytest.fail(f"the server ended with {process.returncode}")


@pytest.mark.parametrize("name", ["mini-ape", "adapted"])
def test_a_server_gives_the_same_vectors(name, exported, server) -> None:
    assert cosines(server(name), by_new(exported[name])).min() > 0.9999
