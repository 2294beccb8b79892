"""The hub that other tests rely on behaves as huggingface_hub, datasets and transformers expect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loopback_hub import LoopbackHub


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        yield hub


def run(hub: LoopbackHub, home: Path, code: str, **extra: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", code], env=hub.env(home, **extra), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


LOOK = """
import json, huggingface_hub as h
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
def name(call):
    try: call()
    except Exception as error: return type(error).__name__
api = h.HfApi()
folder = h.snapshot_download("ours/data", repo_type="dataset", revision="v1")
print(json.dumps({
    "text": open(h.hf_hub_download("ours/tiny", "sub/a.txt")).read(),
    "info": [api.model_info("ours/tiny").sha, api.dataset_info("ours/data").sha],
    "exists": [api.repo_exists("ours/tiny"), api.repo_exists("ours/none"),
               api.file_exists("ours/tiny", "sub/a.txt"), api.file_exists("ours/tiny", "b.txt")],
    "files": sorted(api.list_repo_files("ours/tiny")),
    "tree": [e.path for e in api.list_repo_tree("ours/tiny")],
    "snapshot": open(folder + "/x/y.jsonl").read(),
    "stream": h.HfFileSystem().cat_file("datasets/ours/data@v1/x/y.jsonl", start=2, end=5).decode(),
    "errors": [name(lambda: h.hf_hub_download("ours/none", "a")),
               name(lambda: h.hf_hub_download("ours/tiny", "no")),
               name(lambda: h.hf_hub_download("ours/tiny", "sub/a.txt", revision="no"))],
}))
"""


def test_huggingface_hub_reads_files_listings_and_errors(hub: LoopbackHub, tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "sub").mkdir(parents=True)
    (model / "sub" / "a.txt").write_text("hello")
    (model / "config.json").write_text("{}")
    sha = hub.add("ours/tiny", model)
    old = hub.add("ours/data", {"x/y.jsonl": "0123456"}, repo_type="dataset", branch="v1")
    new = hub.add("ours/data", {"x/y.jsonl": "new"}, repo_type="dataset")
    seen = run(hub, tmp_path / "home", LOOK)
    assert seen["text"] == "hello"
    assert seen["info"] == [sha, new]
    assert old != new
    assert seen["exists"] == [True, False, True, False]
    assert seen["files"] == ["config.json", "sub/a.txt"]
    assert seen["tree"] == ["config.json", "sub"]
    assert seen["snapshot"] == "0123456"
    assert seen["stream"] == "234"
    assert seen["errors"] == ["RepositoryNotFoundError", "RemoteEntryNotFoundError", "RevisionNotFoundError"]


def test_datasets_loads_a_jsonl_file(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.add("ours/data", {"q/test.jsonl": '{"a": 1}\n{"a": 2}\n'}, repo_type="dataset")
    code = """
import json, datasets
rows = datasets.load_dataset("ours/data", data_files="q/test.jsonl", split="train")
print(json.dumps({"a": rows["a"][:]}))
"""
    assert run(hub, tmp_path / "home", code) == {"a": [1, 2]}


TINY = """
import sys
from transformers import BertConfig, BertModel, BertTokenizer
open(sys.argv[1] + "/v.txt", "w").write("[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n[MASK]\\na\\nb\\n")
BertTokenizer(sys.argv[1] + "/v.txt").save_pretrained(sys.argv[1])
BertModel(BertConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=8)).save_pretrained(sys.argv[1])
"""


def test_sentence_transformers_loads_a_model_and_again_offline(hub: LoopbackHub, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", TINY, str(folder)], check=True, timeout=120)
    hub.add("intfloat/e5-base-v2", folder)
    code = """
import json
from sentence_transformers import SentenceTransformer
vector = SentenceTransformer("intfloat/e5-base-v2").encode("a b")
print(json.dumps({"v": [round(float(x), 4) for x in vector]}))
"""
    online = run(hub, tmp_path / "home", code)
    assert len(online["v"]) == 8  # type: ignore[arg-type]
    assert any(r.startswith("GET /intfloat/e5-base-v2/resolve/") for r in hub.requests)
    hub.requests.clear()
    assert run(hub, tmp_path / "home", code, HF_HUB_OFFLINE="1") == online
    assert hub.requests == []


def test_patch_points_this_process_to_the_hub(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    hub.add("ours/tiny", {"a.txt": "hello"})
    hub.patch(monkeypatch, tmp_path)
    path = huggingface_hub.hf_hub_download("ours/tiny", "a.txt")
    assert Path(path).read_text() == "hello"
    assert str(tmp_path) in path
    assert huggingface_hub.model_info("ours/tiny").id == "ours/tiny"
