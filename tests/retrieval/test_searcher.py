"""Search over one's own documents: the scores of mteb, passages of the text, an index that is whole or refused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pyarrow.parquet
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mteb_longembed as longembed
from mteb_longembed.errors import DataError, InputError, StorageError
from mteb_longembed.retrieval.index_files import CURRENT, read_index
from mteb_longembed.retrieval.passages import passages_of
from mteb_longembed.retrieval.searcher import Searcher, metadata_of_documents
from tests import tiny

DOCUMENTS = {f"d{i}": f"{tiny.text(5 + 9 * i, i)}. {tiny.text(9, 3)}." for i in range(10)}
QUERY = tiny.text(6, 3)
TAILS = [
    "+pi@64",
    "+pi@64:center=corpus",
    "+pi@64:center=corpus+queries",
    "+pi@64:index=flat",
    "+pi@64:fuse=bm25",
    "+pi@64:vectors=8",
    "+pcw@64:size=16,vectors=window,fuse=bm25",
    "+pcw@64:size=16,short=cut,vectors=window,center=corpus",
]


def searcher(name: str, documents: dict[str, str] = DOCUMENTS) -> Searcher:
    made = longembed.search(name, device="cpu")
    made.add(list(documents), list(documents.values()))
    return made


def found(made: Searcher, k: int = 10) -> dict[str, float]:
    return {hit.id: hit.score for hit in made.search(QUERY, k)}


@pytest.mark.parametrize("tail", TAILS)
def test_scores_are_those_of_mteb_and_adding_in_parts_changes_nothing(folder: Path, tail: str) -> None:
    model: Any = mteb.get_model(f"{folder}{tail}", device="cpu")
    if hasattr(model, "encode"):
        from mteb.models.search_wrappers import SearchEncoderWrapper

        model = SearchEncoderWrapper(model)
    corpus = Dataset.from_dict(
        {"id": list(DOCUMENTS), "title": [""] * len(DOCUMENTS), "text": list(DOCUMENTS.values())}
    )
    model.index(corpus, **metadata_of_documents())
    asked = Dataset.from_dict({"id": ["q"], "text": [QUERY]})
    want = model.search(asked, top_k=10, **metadata_of_documents())["q"]

    made = longembed.search(f"{folder}{tail}", device="cpu")
    keys = list(DOCUMENTS)
    made.add([*keys[:4], "other"], [DOCUMENTS[key] for key in keys[:4]] + ["a text to remove"])
    made.search(QUERY)
    made.add(keys[4:], [DOCUMENTS[key] for key in keys[4:]])
    made.remove(["other"])
    got = found(made)
    assert list(got) == sorted(want, key=lambda key: (-want[key], key))
    assert max(abs(got[key] - want[key]) for key in want) < 1e-5


@pytest.mark.parametrize("tail", TAILS)
def test_an_index_on_disk_gives_the_same_hits_and_encodes_only_the_query(
    folder: Path, tail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = searcher(f"{folder}{tail}")
    want = made.search(QUERY)
    made.save(tmp_path / "index")
    opened = longembed.open_search(tmp_path / "index", device="cpu")
    encoded: list[str] = []
    model: Any = opened.protocol.embedder if opened._vectors is None else opened._vectors.embedder
    token_ids = type(model.first).token_ids

    def counted(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        encoded.extend(inputs)
        return token_ids(self, inputs, *args, **kwargs)

    monkeypatch.setattr(type(model.first), "token_ids", counted)
    got = opened.search(QUERY)
    assert [(hit.id, hit.start, hit.end) for hit in got] == [(hit.id, hit.start, hit.end) for hit in want]
    assert max(abs(a.score - b.score) for a, b in zip(got, want, strict=True)) < 1e-6
    if "queries" not in tail:  # centred queries are compared with sentences, which are encoded as queries
        assert not set(encoded) & set(DOCUMENTS.values())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.integers(1, 70), st.sampled_from(["+pi@64", "+pi@64:vectors=7", "+pcw@64:size=16,vectors=window"]))
def test_each_vector_has_the_characters_of_its_tokens(folder: Path, n: int, tail: str) -> None:
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    text = tiny.text(n + 2, n)  # words of two letters are tokens
    spans = passages_of(model, text)
    vectors = np.atleast_2d(np.asarray(model.encode_document([text])[0]))
    assert len(spans) == len(vectors)
    assert spans[0][0] == 0 and all(0 <= start < end <= len(text) for start, end in spans)
    words = [text[start:end].split() for start, end in spans]
    if "vectors=7" in tail:
        assert (
            all(len(each) == 7 for each in words[:-1])
            and " ".join(map(" ".join, words)) == text[: spans[-1][1]]
        )
    elif "window" in tail and len(spans) > 1:
        assert len({len(each) for each in words}) == 1  # the last window is moved back to be full
    if n <= 50:
        assert spans[-1][1] == len(text)


def test_a_passage_is_the_text_between_its_ends_and_only_what_was_read(folder: Path) -> None:
    made = searcher(f"{folder}+pi@32", {"long": tiny.text(200), "short": "a b"})
    hits = {hit.id: hit for hit in made.search(QUERY)}
    assert hits["short"].passage == "a b" and (hits["short"].start, hits["short"].end) == (0, 3)
    assert hits["long"].end < len(tiny.text(200)) / 2
    assert hits["long"].passage == tiny.text(200)[: hits["long"].end]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.add(["d1"], ["x"]), "ids must be new, got 'd1' a second time"),
        (lambda s: s.add(["x", "x"], ["a", "b"]), "ids must be new, got 'x' a second time"),
        (lambda s: s.add(["x"], ["a", "b"]), "got 2 documents and 1 ids"),
        (lambda s: s.add([""], ["a"]), "each id must be a text, got '' at place 0"),
        (lambda s: s.add(["x"], [None]), "each document must be a text, got None at place 0"),
        (lambda s: s.remove(["x"]), "only documents that were added can be removed, got 'x'"),
        (lambda s: s.search(" "), "a query must be a text with words"),
        (lambda s: s.search("a", k=0), "k must be a whole number of at least 1 document, got 0"),
        (
            lambda s: Searcher(mteb.get_model("mini-ape")).search("a"),
            "search needs documents: add some first",
        ),
    ],
)
def test_wrong_input_is_one_sentence_and_changes_nothing(folder: Path, call: Any, message: str) -> None:
    made = searcher(f"{folder}+pi@32", {"d1": "a b", "d2": "c d"})
    before = made.search(QUERY)
    with pytest.raises(InputError, match=message):
        call(made)
    assert made.search(QUERY) == before


def test_another_revision_of_the_model_and_a_broken_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    made = searcher(f"{folder}+pi@32")
    where = tmp_path / "index"
    made.save(where)
    file = where / CURRENT
    table = pyarrow.parquet.read_table(file)
    for change, message in (
        ({b"revision": "abc-le1"}, r"at revision abc-le1, and the model is now .*: build the index again"),
        ({b"form": "99"}, "has form 99 of an index"),
    ):
        pyarrow.parquet.write_table(table.replace_schema_metadata({**table.schema.metadata, **change}), file)
        with pytest.raises(DataError, match=message):
            longembed.open_search(where, device="cpu")
    whole = file.read_bytes()
    for damaged in (whole[:-40], whole[: len(whole) // 2], b"", b"no table"):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match="is not complete"):
            longembed.open_search(where, device="cpu")
    with pytest.raises(DataError, match=r"it has no index\.parquet"):
        longembed.open_search(tmp_path)
    with pytest.raises(InputError, match="must be new, empty or an index"):
        made.save(folder)


def test_a_reader_sees_the_state_before_or_after_a_write_and_nothing_between(
    folder: Path, tmp_path: Path
) -> None:
    made = searcher(f"{folder}+pi@32", {"d0": "a b"})
    made.save(tmp_path / "index")
    stop = threading.Event()

    def read() -> list[int]:
        return [len(read_index(tmp_path / "index").texts) for _ in iter(stop.is_set, True)]

    with ThreadPoolExecutor() as pool:
        seen = pool.submit(read)
        try:
            for n in range(1, 12):
                made.add([f"d{n}"], [tiny.text(n + 2)])
                made.save(tmp_path / "index")
        finally:
            stop.set()
    counts = seen.result()
    assert counts == sorted(counts) and set(counts) <= set(range(1, 13))
    assert len(longembed.open_search(tmp_path / "index", device="cpu")) == 12


def test_a_write_that_fails_leaves_the_old_index(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mteb_longembed.retrieval import index_files

    made = searcher(f"{folder}+pi@32", {"d0": "a b"})
    made.save(tmp_path / "index")
    made.add(["d1"], ["c d"])

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index_files.os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot be written .*No space left on device.*is unchanged"):
        made.save(tmp_path / "index")
    assert len(longembed.open_search(tmp_path / "index", device="cpu")) == 1
    assert {each.name for each in (tmp_path / "index").iterdir()} <= {CURRENT, ".lock"}


def test_a_model_without_vectors_searches_too() -> None:
    made = longembed.search("bm25")
    made.add(["a", "b", "c"], ["the key is here", "a cat sat there", "nothing at all"])
    (hit, *_) = made.search("where is the key", k=1)
    assert (hit.id, hit.passage) == ("a", "the key is here")
