"""mteb writes the results of everybody's models as if this package were not installed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests import tiny

#: A stock model on two subsets of a task, one after the other, with other settings each.
RUN = """
import sys
import mteb
from mteb.cache import ResultCache
from mteb.mocks.mock_tasks.retrieval import MockMultilingualRetrievalTask
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(sys.argv[1], device="cpu")
model.model_card_data.model_name = "tiny/bert"
for subset, size in (("eng", 8), ("fra", 16), ("eng", 4)):
    task = MockMultilingualRetrievalTask().filter_languages(None, hf_subsets=[subset])
    mteb.evaluate(
        model, task, cache=ResultCache(sys.argv[2]), encode_kwargs={"batch_size": size}, show_progress_bar=False,
        prediction_folder=sys.argv[2] + "/predictions",
    )
assert ("mteb_longembed" in sys.modules) == (sys.argv[3] == "with")
"""


def _written(folder: Path, model: Path, kind: str) -> dict[str, object]:
    """The files of a results folder by their paths, without times."""
    arguments = [str(model), str(folder), kind]
    if kind == "with":
        with mock.patch.object(sys, "argv", ["", *arguments]):
            exec(RUN, {"__name__": "run"})
    else:
        settings = {"MTEB_LONGEMBED_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-c", RUN, *arguments]
        subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=300, capture_output=True)
    files: dict[str, object] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        texts = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        content = [json.loads(text) for text in texts]
        files[str(file.relative_to(folder))] = _without_times(content)
    return files


def _without_times(content: object) -> object:
    """Nested content without what differs between two equal runs."""
    if isinstance(content, dict):
        kept = {key: value for key, value in content.items() if not _is_of_this_run(key)}
        return {key: _without_times(value) for key, value in kept.items()}
    if isinstance(content, list):
        return [_without_times(value) for value in content]
    return content


def _is_of_this_run(key: str) -> bool:
    return key in ("start", "end") or any(word in key for word in ("time", "date", "emission", "seconds"))


@pytest.mark.long
def test_all_files_of_a_stock_model_are_as_without_the_package(tmp_path: Path) -> None:
    model = tiny.saved("bert", tmp_path / "model")
    with_us = _written(tmp_path / "with", model, "with")
    without = _written(tmp_path / "without", model, "without")
    assert any(name.endswith("MockMultilingualRetrievalTask.json") for name in with_us)
    assert with_us == without
