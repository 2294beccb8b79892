"""Every example in `examples/` runs, offline, and finds the right document.

`tox -e examples` installs the frameworks. Elsewhere an example without its framework is skipped.
"""

import ast
import importlib.util
import os
import runpy
import sys
from pathlib import Path

import pytest

import mteb_longembed

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Example -> what must be installed beside this package.
NEEDS = {
    "chonkie_search": "chonkie",
    "chroma_search": "chromadb",
    "faiss_search": "faiss",
    "haystack_search": "haystack",
    "lancedb_search": "lancedb",
    "langchain_search": "langchain_huggingface",
    "lora_training": "peft",
    "llama_index_search": "llama_index",
    "onnx_export": "onnxruntime",
    "position_tuning": "accelerate",
    "qdrant_search": "qdrant_client",
}
#: Tested below, in test_ray_corpus.py, test_drawn_questions.py and test_write_questions.py, or a part of others.
ELSEWHERE = (
    "documents",
    "drawn_questions",
    "fastapi_search",
    "lancedb_shards",
    "ray_corpus",
    "write_questions",
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run one example in an empty folder, without the hub; its names afterwards."""

    def running(name: str, *arguments: str) -> dict:
        if importlib.util.find_spec(NEEDS[name]) is None:
            assert os.environ.get("LONGEMBED_EXAMPLES") != "all", f"{NEEDS[name]} is not installed"
            pytest.skip(f"needs {NEEDS[name]}: tox -e examples")
        monkeypatch.syspath_prepend(str(EXAMPLES))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        return runpy.run_path(str(EXAMPLES / f"{name}.py"))

    return running


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*NEEDS, *ELSEWHERE}


@pytest.mark.parametrize("name", [name for name in NEEDS if name.endswith("_search")])
def test_the_right_document_comes_first(name, run) -> None:
    variables = run(name)
    assert variables["RANKING"][0] == "library"
    assert sorted(variables["RANKING"]) == ["harbour", "library", "station"]
    assert variables.get("RANKING_BY_ONE", ["library"])[0] == "library"
    if "CHUNK" in variables:
        assert "90577" in variables["CHUNK"]
    assert variables.get("RANKING_BY_WORDS", ["library"])[0] == "library"
    # the recipes for databases also filter and update
    assert set(variables.get("OLD", ["harbour", "station"])) == {"harbour", "station"}
    assert variables.get("UPDATED", "harbour") == "harbour"


@pytest.mark.parametrize("name", ["faiss_search", "lancedb_search", "qdrant_search"])
def test_a_recipe_for_an_index_is_one_file(name) -> None:
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {path.stem for path in EXAMPLES.glob("*.py")}


EXPORTED = [f"mini-ape+{key}" for key in ("pi", "ntk", "rp")]
EXPORTED += [f"mini-rope+{key}" for key in ("pi", "ntk", "yarn")]


@pytest.mark.parametrize("name", EXPORTED)
def test_onnx_gives_the_checkpoint_s_embeddings(name, run) -> None:
    assert run("onnx_export", f"{name}@2k:logn=off")["DIFFERENCE"] < 1e-4


def test_a_trained_adapter_is_saved_and_found_again(run) -> None:
    variables = run("lora_training", "1")
    assert variables["RANKING"][0] == "library" and variables["DIFFERENCE"] < 1e-5


def test_position_tuning_adds_rows(run) -> None:
    assert run("position_tuning")["ROWS"] == 512 + 1024  # rows of short inputs, and of long ones


def test_a_saved_index_answers_behind_fastapi(tmp_path, monkeypatch) -> None:
    testing = pytest.importorskip("fastapi.testclient")
    searcher = mteb_longembed.search("bm25:window=20")
    searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])
    searcher.save(tmp_path / "index")
    monkeypatch.setenv("INDEX", str(tmp_path / "index"))
    app = runpy.run_path(str(EXAMPLES / "fastapi_search.py"))["app"]
    (hit,) = testing.TestClient(app).get("/search", params={"question": "Where is the key?"}).json()
    assert hit["id"] == "a" and hit["passage"] == "The key is under the mat."


def test_lancedb_finds_a_key_of_many_letters(tmp_path, monkeypatch) -> None:
    lancedb = pytest.importorskip("lancedb")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from lancedb_shards import WORDS

    key = "a1b2c3d4" * 8
    table = lancedb.connect(str(tmp_path)).create_table("texts", [{"text": f"The key is {key}."}])
    table.create_index("text", config=WORDS)
    assert len(table.search(key, query_type="fts").limit(5).to_list()) == 1
