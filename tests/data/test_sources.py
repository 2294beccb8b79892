"""The data of a comparison: exactly one kind."""

from copy import copy
from pathlib import Path
from typing import Any

import pytest

from mteb_longembed.data.sources import Data
from mteb_longembed.errors import InputError
from tests.own_data import beir

CORPUS = {"d1": "the red ferry", "d2": "the blue ferry"}
QUERIES = {"q1": "red", "q2": "blue"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}
FILES: dict[str, Any] = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one kind of data: .*; got 0 kinds"),
        ({"folder": "x", "tasks": ["y"]}, "got 2 kinds"),
        ({"queries": QUERIES, "qrels": QRELS}, "belong together: give all three"),
        ({"corpus": CORPUS, "qrels": QRELS}, "belong together: give all three"),
        ({"tasks": ["LongEmbedQMSum"], "language": "deu-Latn"}, "tasks have their own: leave out 'deu-Latn'"),
        ({**FILES, "eval_splits": ["dev"]}, "eval_splits needs tasks or a folder"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Data(**fields)


def test_files_and_a_folder_have_their_language_and_a_task_comes_once(tmp_path: Path) -> None:
    (task,) = Data(**FILES, language="deu-Latn").load()
    assert task.metadata.eval_langs == ["deu-Latn"]
    root = beir(tmp_path / "data", ["the red ferry", "the blue ferry"], ["red", "blue"])
    (of_folder,) = Data(folder=root, language="deu-Latn").load()
    assert of_folder.metadata.eval_langs == ["deu-Latn"]
    with pytest.raises(InputError, match="each task may be compared once"):
        Data(tasks=[of_folder, copy(of_folder)]).load()
    with pytest.raises(InputError, match="documents without queries cannot be ranked: give --queries"):
        Data(corpus=CORPUS).load()
    with pytest.raises(InputError, match="eval_splits needs names of tasks, got a task object"):
        Data(tasks=[of_folder], eval_splits=["test"]).load()
