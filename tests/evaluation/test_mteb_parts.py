"""Private names of mteb: what they do today, and one sentence where one has moved."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mteb_longembed.errors import LongEmbedError
from mteb_longembed.evaluation.mteb_parts import keep, n_kept
from mteb_longembed.tasks import LongEmbedPasskey
from tests.own_data import bm25


def test_a_search_keeps_so_many_documents_of_each_query(tmp_path: Path) -> None:
    task = LongEmbedPasskey().filter_eval_splits(["test_256"])
    task.k_values = (1, 7)
    keep(task, 7)
    bm25(task, prediction_folder=tmp_path)
    (written,) = tmp_path.glob("*.json")
    rankings = json.loads(written.read_text())["default"]["test_256"]
    assert {len(documents) for documents in rankings.values()} == {n_kept(task)} == {7}


def test_a_task_without_the_name_is_one_sentence() -> None:
    other: Any = SimpleNamespace()
    with pytest.raises(
        LongEmbedError, match=r"^mteb \S+ has no AbsTaskRetrieval\._top_k, which mteb-longembed"
    ):
        keep(other, 7)
    assert not vars(other)
