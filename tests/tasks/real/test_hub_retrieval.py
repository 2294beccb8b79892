"""The real tasks: read from a hub, from its cache or from a folder, and never from other data by mistake."""

import gzip
from pathlib import Path

import pytest

from mteb_longembed.errors import DataError, HubError, UnknownNameError
from mteb_longembed.tasks import LongEmbedQMSum
from mteb_longembed.tasks.real.hub_retrieval import DATA_VARIABLE, REPOSITORY, REVISION, HubRetrieval, Size
from tests.loopback_hub import LoopbackHub
from tests.own_data import bm25, json_lines

TOPICS = list(enumerate(("budget", "harvest", "piano", "railway"), start=1))
FILES = {
    "corpus": [
        {"doc_id": f"m{i}", "text": f"The {t} meeting. " + "We talked about it. " * i} for i, t in TOPICS
    ],
    "queries": [{"qid": f"q{i}", "text": f"What did the {topic} meeting decide?"} for i, topic in TOPICS],
    "qrels": [{"qid": f"q{i}", "doc_id": f"m{i}"} for i, _ in TOPICS],
}


def contents(**changed: bytes) -> dict[str, bytes]:
    """The stand-in repository's files by path, some replaced."""
    return {f"qmsum/{kind}.jsonl": changed.get(kind, json_lines(rows)) for kind, rows in FILES.items()}


class StandIn(LongEmbedQMSum):
    """The same task without the check for the published size."""

    size = None


@pytest.fixture
def hub(empty_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> LoopbackHub:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    return empty_hub


def serve(hub: LoopbackHub, files: dict[str, bytes]) -> None:
    hub.add(REPOSITORY, files, repo_type="dataset", sha=REVISION)


def load(task: type[HubRetrieval] = StandIn) -> HubRetrieval:
    loaded = task()
    loaded.load_data()
    return loaded


def test_packed_files_with_different_columns_become_one_task_also_offline(
    hub: LoopbackHub, monkeypatch
) -> None:
    serve(hub, {f"{name}.gz": gzip.compress(text) for name, text in contents().items()})
    assert bm25(StandIn()).get_score() == 1.0
    assert all(REVISION in request for request in hub.requests if "resolve" in request)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    data = load().dataset["default"]["test"]
    assert data["corpus"]["id"][:] == ["m1", "m2", "m3", "m4"]
    assert data["queries"][0] == {"id": "q1", "text": "What did the budget meeting decide?"}
    assert data["relevant_docs"] == {f"q{i}": {f"m{i}": 1} for i in range(1, 5)}


def test_a_folder_works_without_any_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in contents().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    find = "mteb_longembed.tasks.real.hub_retrieval.find"
    monkeypatch.setattr(find, lambda *args, **kwargs: pytest.fail("hub asked"))
    assert len(load().dataset["default"]["test"]["corpus"]) == 4
    (tmp_path / "qmsum" / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match=r"expected qmsum/corpus\.jsonl or \.jsonl\.gz in that folder"):
        load()


@pytest.mark.parametrize("offline", [False, True])
def test_a_hub_that_cannot_be_reached_is_named_with_what_works_offline(
    offline, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with LoopbackHub() as closed:
        closed.patch(monkeypatch, tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    text = rf"cannot be reached and '{REPOSITORY}' is not in the cache.*HF_HOME.*{DATA_VARIABLE} can name a"
    with pytest.raises(HubError, match=text):
        load()


def test_a_missing_repository_and_a_missing_file_are_told_apart(hub: LoopbackHub) -> None:
    with pytest.raises(HubError, match=rf"^the hub has no readable dataset '{REPOSITORY}' at .*{REVISION}"):
        load()
    serve(hub, {"README.md": b"empty"})
    with pytest.raises(HubError, match=rf"^qmsum/corpus\.jsonl of .* does not exist at {REVISION[:7]}"):
        load()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"corpus": json_lines([*FILES["corpus"][:2], {"doc_id": "m3"}])}, "corpus.jsonl, row 3: the text"),
        ({"qrels": json_lines(FILES["qrels"][:3])}, r"qrels\.jsonl: expected a .* 1 queries have none.*'q4'"),
    ],
)
def test_incomplete_data_name_file_and_line(hub, changed, message) -> None:
    serve(hub, contents(**changed))
    with pytest.raises(DataError, match=f"{REPOSITORY}/qmsum/{message}"):
        load()


def test_other_data_also_of_the_same_counts_are_never_run_under_the_published_name(hub: LoopbackHub) -> None:
    serve(hub, contents())
    with pytest.raises(DataError, match=r"the published 197 documents of 53336 characters .* found 4"):
        load(LongEmbedQMSum)
    with pytest.raises(DataError, match="2 documents of 10 characters on average, found 2 of 8"):
        Size(2, 10, 1, 4).check("x", {"a": "0123456789", "b": "012345"}, {"q": "what"})


def test_an_unknown_split_is_refused_before_anything_is_loaded(hub: LoopbackHub) -> None:
    with pytest.raises(UnknownNameError, match=r"split of LongEmbedQMSum 'test_256': .*known: test\."):
        LongEmbedQMSum().filter_eval_splits(["test", "test_256"]).load_data()
    assert hub.requests == []


@pytest.mark.parametrize("chars", [1009, 991])
def test_a_mean_length_may_differ_by_one_percent(chars: int) -> None:
    Size(1, 1000, 1, 4).check("x", {"a": "a" * chars}, {"q": "what"})
    with pytest.raises(DataError, match=r"^x: expected the published 1 documents of 1000 characters"):
        Size(1, 1000, 1, 4).check("x", {"a": "a" * (chars + 2 * (chars - 1000) // 9)}, {"q": "what"})
