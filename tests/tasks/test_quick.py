"""The quick tasks: a tenth of the queries, everything they need, and a choice that never changes unnoticed."""

import hashlib

import mteb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.tasks import TASKS
from mteb_longembed.tasks.benchmark import make_quick_benchmark
from mteb_longembed.tasks.quick import QUICK_TASKS, choose
from tests.own_data import bm25

DOCUMENTS = [f"d{i}" for i in range(60)]
NEEDED = st.lists(st.sets(st.sampled_from(DOCUMENTS), min_size=1, max_size=3), min_size=1, max_size=120)


@given(NEEDED, st.randoms())
def test_a_tenth_of_the_queries_with_all_that_they_need_and_as_many_others(needed, random) -> None:
    relevant = {f"q{i}": dict.fromkeys(names, 1) for i, names in enumerate(needed)}
    queries, documents = choose(relevant, DOCUMENTS, "task/split")
    least = [names for query, names in relevant.items() if query in queries]
    assert set().union(*least) <= documents
    # the last document that was taken may have brought more queries than were missing
    assert len(queries) >= 0.1 * len(relevant)
    most = max(sum(min(names) == name for names in relevant.values()) for name in DOCUMENTS)
    assert len(queries) < 0.1 * len(relevant) + most
    n_needed = len(set().union(*least))
    assert len(documents) == min(len(DOCUMENTS), max(2 * n_needed, 20))
    shuffled = list(relevant.items())
    random.shuffle(shuffled)
    assert choose(dict(shuffled), DOCUMENTS[::-1], "task/split") == (queries, documents)


def test_another_split_gets_another_choice() -> None:
    relevant = {f"q{i}": {f"d{i}": 1} for i in range(60)}
    assert choose(relevant, DOCUMENTS, "a/test") != choose(relevant, DOCUMENTS, "b/test")


def test_six_tasks_with_names_and_revisions_of_their_own() -> None:
    benchmark = make_quick_benchmark()
    assert [type(task) for task in benchmark.tasks] == list(QUICK_TASKS)
    for quick, full in zip(QUICK_TASKS, TASKS, strict=True):
        assert quick.metadata.name == f"{full.metadata.name}-quick"
        assert quick.metadata.revision == f"{full.metadata.revision}-q1"
        assert quick.metadata.is_filled()


DIGESTS = {"LongEmbedPasskey": "d9d7837b575e", "LongEmbedNeedle": "eaca7c0ddde5"}


@pytest.mark.parametrize(("name", "digest"), DIGESTS.items())
def test_a_quick_split_is_a_part_of_the_whole_and_never_changes_unnoticed(name, digest) -> None:
    parts = []
    for task in (mteb.get_task(name), mteb.get_task(f"{name}-quick")):
        task = task.filter_eval_splits(["test_256", "test_1024"])
        task.load_data()
        parts.append(task.dataset["default"])
    full, quick = parts
    sha256 = hashlib.sha256()
    for split in ("test_256", "test_1024"):
        texts = dict(zip(full[split]["corpus"]["id"], full[split]["corpus"]["text"], strict=True))
        for row in quick[split]["corpus"]:
            assert row["text"] == texts[row["id"]] and "depth" in row
        asked = dict(zip(quick[split]["queries"]["id"], quick[split]["queries"]["text"], strict=True))
        assert len(asked) == 5 and set(asked) == set(quick[split]["relevant_docs"])
        sha256.update(repr([sorted(asked), sorted(quick[split]["corpus"]["id"])]).encode())
    assert sha256.hexdigest()[:12] == digest


def test_it_runs_through_mteb() -> None:
    task = mteb.get_task("LongEmbedPasskey-quick").filter_eval_splits(["test_256"])
    assert bm25(task).scores["test_256"][0]["ndcg_at_1"] == 1
