"""NanoLongEmbed: read from a hub with the layout of the published data set, and never from other data."""

import pytest
from huggingface_hub import constants

from mteb_longembed.errors import DataError, HubError
from mteb_longembed.tasks.real.nano import NANO_TASKS, REPOSITORY
from tests.loopback_hub import LoopbackHub
from tests.own_data import bm25
from tests.published_data import repository

TOPICS = ("budget", "harvest", "piano", "railway")
ROWS = {
    "corpus": [{"_id": f"m{i}", "text": f"The {topic} meeting."} for i, topic in enumerate(TOPICS)],
    "queries": [{"_id": f"q{i}", "text": f"What of the {topic}?"} for i, topic in enumerate(TOPICS)],
    "qrels": [{"query-id": f"q{i}", "corpus-id": f"m{i}"} for i in range(4)],
}


NanoLongEmbedQMSum = NANO_TASKS[2]


class StandIn(NanoLongEmbedQMSum):
    """The same task without the check for the published size."""

    size = None


def serve(hub: LoopbackHub) -> None:
    configs = {kind: dict.fromkeys(("NanoQMSum", "NanoNeedle"), rows) for kind, rows in ROWS.items()}
    hub.add(REPOSITORY, repository(configs), repo_type="dataset")


def test_mteb_evaluates_a_split_of_the_data_set_and_then_it_works_offline(empty_hub, monkeypatch) -> None:
    serve(empty_hub)
    assert bm25(StandIn()).get_score() == 1.0
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    empty_hub.repositories.clear()
    task = StandIn()
    task.load_data()
    data = task.dataset["default"]["NanoQMSum"]
    assert data["corpus"][0] == {"id": "m0", "text": "The budget meeting."}
    assert data["relevant_docs"] == {f"q{i}": {f"m{i}": 1} for i in range(4)}


def test_other_data_are_never_run_under_the_published_name(empty_hub: LoopbackHub) -> None:
    serve(empty_hub)
    with pytest.raises(DataError, match=r"NanoQMSum: expected the published 197 documents .* found 4"):
        NanoLongEmbedQMSum().load_data()


def test_a_data_set_that_cannot_be_loaded_is_told_in_one_sentence(empty_hub: LoopbackHub) -> None:
    with pytest.raises(HubError, match=rf"^corpus of the data set {REPOSITORY} cannot be loaded \(.*HF_HOME"):
        StandIn().load_data()


def test_the_six_tasks_have_998_queries_about_2788_documents() -> None:
    sizes = {task.metadata.name: task.size for task in NANO_TASKS}
    assert len(sizes) == 6
    assert sum(size.n_queries for size in sizes.values()) == 998
    assert sum(size.n_documents for size in sizes.values()) == 2788
