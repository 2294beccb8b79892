"""mteb's own check of a model, `mteb mock-run`, on one of our models of each kind."""

from typing import Any

import mteb
import pytest
from mteb.results import TaskResult

#: Each kind, and how many of mteb's mock tasks it can run: one without `encode` runs only those that search.
#: `fusion=bm25` is missing, because mteb's own BM25 cannot read the task with dialogues.
KINDS = [("mini-rope+ntk@1k", 28), ("mini-ape+pcw@1k:vectors=window", 9)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "n_tasks"), KINDS)
def test_mtebs_own_check_passes(name: str, n_tasks: int) -> None:
    results: dict[str, Any] = mteb.mock_run(mteb.get_model(name)).task_results
    ran = {task: result for task, result in results.items() if result}
    wrong = {task: result.exception for task, result in ran.items() if not isinstance(result, TaskResult)}
    assert not wrong and len(ran) == n_tasks
