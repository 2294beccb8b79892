"""Search over one's own documents: the scores of mteb, passages of the text, an index that is whole or refused."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import mteb
import numpy as np
import pyarrow.parquet
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.errors import DataError, InputError, StorageError
from mteb_longembed.retrieval import passages
from mteb_longembed.retrieval.index_files import CURRENT, read_index
from mteb_longembed.retrieval.passages import passages_of
from mteb_longembed.retrieval.searcher import Searcher, options_of_documents
from mteb_longembed.retrieval.vector_search import VectorSearch
from tests import tiny
from tests.loopback_hub import LoopbackHub

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


def scores_of(made: Searcher, k: int = 10) -> dict[str, float]:
    return {hit.id: hit.score for hit in made.search(QUERY, k)}


@pytest.mark.parametrize("tail", ["+pi@64", "+pi@64:center=corpus", "+pi@64:fuse=bm25", "bm25"])
def test_two_searchers_of_one_model_have_their_own_documents(folder: Path, tail: str) -> None:
    model: Any = mteb.get_model(tail if tail == "bm25" else f"{folder}{tail}", device="cpu")
    vectors, one, other = getattr(model, "vectors", None), Searcher(model), Searcher(model)
    one.add(["d0", "d1"], [DOCUMENTS["d0"], DOCUMENTS["d1"]])
    want = scores_of(one)
    other.add(["d2"], [DOCUMENTS["d2"]])
    assert list(scores_of(other)) == ["d2"] and scores_of(one) == want
    assert getattr(model, "vectors", None) is vectors


def test_a_fused_search_takes_every_similarity(folder: Path, tmp_path: Path) -> None:
    stock = SentenceTransformer(str(folder), device="cpu")
    stock.similarity_fn_name = "euclidean"
    stock.save(str(tmp_path / "model"))
    made = searcher(f"{tmp_path / 'model'}+pi@64:fuse=bm25")
    made.search(QUERY)
    made.add(["same"], [QUERY])
    assert next(iter(scores_of(made))) == "same"


@pytest.mark.parametrize("tail", TAILS)
def test_scores_are_those_of_mteb_and_adding_in_parts_changes_nothing(folder: Path, tail: str) -> None:
    model: Any = mteb.get_model(f"{folder}{tail}", device="cpu")
    if hasattr(model, "encode"):
        from mteb.models.search_wrappers import SearchEncoderWrapper

        model = SearchEncoderWrapper(model)
    columns = {"id": list(DOCUMENTS), "title": [""] * len(DOCUMENTS), "text": list(DOCUMENTS.values())}
    model.index(Dataset.from_dict(columns), **options_of_documents())
    asked = Dataset.from_dict({"id": ["q"], "text": [QUERY]})
    want = model.search(asked, top_k=10, **options_of_documents())["q"]

    made = longembed.search(f"{folder}{tail}", device="cpu")
    keys = list(DOCUMENTS)
    made.add([*keys[:4], "other"], [DOCUMENTS[key] for key in keys[:4]] + ["a text to remove"])
    made.search(QUERY)
    made.add(keys[4:], [DOCUMENTS[key] for key in keys[4:]])
    made.remove(["other"])
    got = scores_of(made)
    assert list(got) == sorted(want, key=lambda key: (-want[key], key))
    assert max(abs(got[key] - want[key]) for key in want) < 1e-5


@pytest.mark.parametrize("tail", TAILS)
def test_an_index_on_disk_gives_the_same_hits_and_encodes_only_the_query(
    folder: Path, tail: str, tmp_path: Path, encoded: list[str]
) -> None:
    made = searcher(f"{folder}{tail}")
    want = made.search(QUERY)
    made.save(tmp_path / "index")
    opened = longembed.open_search(tmp_path / "index", device="cpu")
    assert set(DOCUMENTS.values()) <= set(encoded)
    encoded.clear()
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
        assert all(len(window) == 7 for window in words[:-1])
        assert " ".join(map(" ".join, words)) == text[: spans[-1][1]]
    elif "window" in tail and len(spans) > 1:
        assert len({len(window) for window in words}) == 1  # the last window is moved back to be full
    if n <= 50:
        assert spans[-1][1] == len(text)


def test_without_passages_a_hit_of_one_vector_shows_what_was_read(folder: Path) -> None:
    made = longembed.search(f"{folder}+pi@32", device="cpu", passages=False)
    made.add(["long", "short"], [tiny.text(200), "a b"])
    hits = {hit.id: hit for hit in made.search(QUERY)}
    assert hits["short"].passage == "a b" and (hits["short"].start, hits["short"].end) == (0, 3)
    assert hits["long"].end < len(tiny.text(200)) / 2
    assert hits["long"].passage == tiny.text(200)[: hits["long"].end]


@given(st.text("ab .!?\n\x1f", max_size=40))
def test_windows_hold_every_character_but_blanks_once_and_in_order(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passages, "WINDOW_CHARS", 7)
        windows = passages.windows_of(text)
    assert all(0 < end - start <= 7 and not text[start:end].isspace() for start, end in windows)
    assert "".join("".join(text[start:end] for start, end in windows).split()) == "".join(text.split())
    assert windows == sorted(windows)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Smith paid 3.5 million to the U.S. office. ", "Why? ", "He won."],
        ["天气很好, 我们出去。", "为什么?", "他赢了。"],
    ],
)
def test_windows_hold_whole_sentences_as_unicode_ends_them(sentences, monkeypatch) -> None:
    monkeypatch.setattr(passages, "WINDOW_CHARS", len(sentences[0].strip()))
    text = "".join(sentences)
    windows = [text[start:end] for start, end in passages.windows_of(text)]
    assert windows == [sentences[0].strip(), "".join(sentences[1:])]


PARTS = [f"{tiny.text(10, seed)}." for seed in range(8)]
PARTS_OF = {"a": PARTS[:5], "b": PARTS[5:], "short": ["a b c."]}


@pytest.mark.parametrize("name", ["+pi@128", "+pi@128:center=corpus", "+pi@128:fuse=bm25", "", "mteb/tiny"])
def test_a_hit_of_one_vector_shows_the_sentence_that_is_nearest_and_encodes_it_once(
    folder: Path, name: str, empty_hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "WINDOW_CHARS", 40)
    texts = {key: " ".join(parts) for key, parts in PARTS_OF.items()}
    encoded: list[str] = []
    encode = VectorSearch._encode

    def noting(self: Any, table: Any, *args: Any, **kwargs: Any) -> Any:
        encoded.extend(table["text"])
        return encode(self, table, *args, **kwargs)

    model: Any = longembed.load(f"{folder}+pi@128", device="cpu")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")  # mteb needs a card
    empty_hub.add("mteb/tiny", folder)
    made = searcher(name if "/" in name else f"{folder}{name}", texts)
    mean = model.encode_document(list(texts.values())).mean(0) if "center" in name else 0
    monkeypatch.setattr(VectorSearch, "_encode", noting)
    for query in (PARTS[6], PARTS[3]):
        hits = made.search(query)
        assert len(hits) == 3
        for hit in hits:
            parts = PARTS_OF[hit.id]
            rows = model.encode_document(parts) - mean
            scores = rows @ model.encode_query(query) / np.linalg.norm(rows, axis=1)
            assert hit.passage == texts[hit.id][hit.start : hit.end]
            if name:
                assert hit.passage == parts[scores.argmax()]
            else:  # without a strategy our model reads the beginning of its 16 tokens alone
                assert hit.start == 0 and hit.end < 40
    # the two questions are sentences too
    assert [encoded.count(part) for part in (PARTS[0], PARTS[4])] == ([1, 1] if name else [0, 0])
    made.upsert(["a"], [f"{PARTS[7]} {texts['a']}"])
    for hit in made.search(PARTS[7]):
        assert hit.passage == hit.document[hit.start : hit.end]


def test_bm25_alone_shows_the_window_with_its_highest_score_and_no_bars(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(passages, "WINDOW_CHARS", 20)
    made = longembed.search("bm25")
    cat, dog = "A cat sat there. The key is here. Keys are lost.", "Nothing at all. The dog has a key."
    made.add(["a", "b"], [cat, dog])
    passages_found = [hit.passage for hit in made.search("dog with a key")]
    assert passages_found == ["The dog has a key.", "The key is here."]
    made.upsert(["b"], ["The cat has a key. Nothing at all."])
    assert {hit.id: hit.passage for hit in made.search("cat with a key")}["b"] == "The cat has a key."
    assert "BM25S" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.add(["d1"], ["x"]), "ids must be new, got 'd1' a second time"),
        (lambda s: s.add(["x", "x"], ["a", "b"]), "ids must be new, got 'x' a second time"),
        (lambda s: s.add(["x"], ["a", "b"]), "got 2 documents and 1 ids"),
        (lambda s: s.add([""], ["a"]), "each id must be a text, got '' at place 0"),
        (lambda s: s.add(["x"], [None]), "each document must be a text, got None at place 0"),
        (lambda s: s.add("ab", ["a", "b"]), "ids must be a list of texts, got one text, 'ab'"),
        (lambda s: s.add(["a", "b"], "ab"), "texts must be a list of texts, got one text, 'ab'"),
        (lambda s: s.add(["a\ud800"], ["a"]), r"each id must be a text, got 'a\\ud800' at place 0"),
        (lambda s: s.remove("d1"), "ids must be a list of texts, got one text, 'd1'"),
        (lambda s: s.remove(["x"]), "only documents that were added can be removed, got 'x'"),
        (lambda s: s.search(" "), "a query must be a text with words"),
        (lambda s: s.search("a", k=0), "k must be a whole number of at least 1 document, got 0"),
        (
            lambda s: Searcher(mteb.get_model("mini-ape")).search("a"),
            "search needs documents with text: add some first",
        ),
    ],
)
def test_wrong_input_is_one_sentence_and_changes_nothing(folder: Path, call: Any, message: str) -> None:
    made = searcher(f"{folder}+pi@32", {"d1": "a b", "d2": "c d"})
    hits = made.search(QUERY)
    with pytest.raises(InputError, match=message):
        call(made)
    assert made.search(QUERY) == hits


def test_another_revision_of_the_model_and_a_folder_of_something_else_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "model")
    made = searcher(f"{tmp_path / 'model'}+pi@32", {"d0": "a b"})
    made.save(tmp_path / "index")
    settings_file = tmp_path / "model" / "config_sentence_transformers.json"
    settings_file.write_text(settings_file.read_text().replace("passage : ", "passage. "))
    with pytest.raises(DataError, match=r"at revision .*, and the model is now .*: build the index again"):
        longembed.open_search(tmp_path / "index", device="cpu")
    with pytest.raises(DataError, match=r"it has no index\.parquet"):
        longembed.open_search(tmp_path)
    with pytest.raises(InputError, match="must be new, empty or an index"):
        made.save(folder)
    file = tmp_path / "own" / CURRENT
    file.parent.mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), file)
    content = file.read_bytes()
    with pytest.raises(InputError, match=r"is no index of ours or is damaged, so it is not replaced"):
        made.save(file.parent)
    assert file.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_link_in_the_place_of_a_file_of_ours_is_not_followed(folder: Path, tmp_path: Path) -> None:
    made = searcher(f"{folder}+pi@32", {"d0": "a b"})
    (tmp_path / "mine").write_text("my work")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / ".index.parquet.part").symlink_to(tmp_path / "mine")
    made.save(tmp_path / "index")
    assert (tmp_path / "mine").read_text() == "my work"
    assert len(longembed.open_search(tmp_path / "index", device="cpu")) == 1


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
    made = searcher(f"{folder}+pi@32", {"d0": "a b"})
    made.save(tmp_path / "index")
    made.add(["d1"], ["c d"])
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match=r"cannot be written .*No space left on device.*is unchanged"):
        made.save(tmp_path / "index")
    assert len(longembed.open_search(tmp_path / "index", device="cpu")) == 1
    assert {path.name for path in (tmp_path / "index").iterdir()} <= {CURRENT, ".lock"}


def test_a_model_without_vectors_searches_too() -> None:
    made = longembed.search("bm25")
    made.add(["a", "b", "c"], ["the key is here", "a cat sat there", "nothing at all"])
    (hit, *_) = made.search("where is the key", k=1)
    assert (hit.id, hit.passage) == ("a", "the key is here")


def test_generators_and_halves_of_characters_are_read(folder: Path) -> None:
    made = searcher(f"{folder}+pi@32", {"d1": "a \ud800b", "d2": "c d"})
    assert {hit.passage for hit in made.search("a\udfff")} == {"a \ufffdb", "c d"}
    made.remove(key for key in ["d2"])
    made.add((f"n{i}" for i in range(2)), (text for text in ["e f", "g h"]))
    assert {hit.id for hit in made.search("a")} == {"d1", "n0", "n1"}


@pytest.mark.parametrize(
    "tail", ["+pi@64", "+pi@64:fuse=bm25", "+pcw@64:size=16,vectors=window,center=corpus"]
)
def test_documents_without_text_are_kept_and_never_found(folder: Path, tail: str, tmp_path: Path) -> None:
    texts = {"e1": "", **DOCUMENTS, "e2": " \n"}
    made = searcher(f"{folder}{tail}", texts)
    want = [(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in searcher(f"{folder}{tail}").search(QUERY)]
    assert (len(made), made.empty) == (12, ["e1", "e2"])
    made.save(tmp_path / "index")
    opened = longembed.open_search(tmp_path / "index", device="cpu")
    for index in (made, opened):
        assert [(hit.id, hit.score) for hit in index.search(QUERY)] == want
        assert sorted(index.empty) == ["e1", "e2"]
        index.remove(["e1", "d3"])
        assert {hit.id for hit in index.search(QUERY)} == set(DOCUMENTS) - {"d3"}


@pytest.mark.parametrize("tail", ["+pi@64:fuse=bm25", "+pcw@64:size=16,vectors=window,center=corpus+queries"])
def test_an_interrupted_call_changes_nothing(
    folder: Path, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = searcher(f"{folder}{tail}")
    want = made.search(QUERY)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "from_dict", lambda *args, **kwargs: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            made.add(["x"], ["a b"])
    assert made.search(QUERY) == want
    made.add(["x"], [QUERY])
    with monkeypatch.context() as patch:
        patch.setattr(made.protocol, "refresh", lambda *args, **kwargs: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            made.search(QUERY)
    assert {hit.id for hit in made.search(QUERY, k=20)} == {*DOCUMENTS, "x"}


def test_an_index_finds_the_model_beside_it_or_where_it_is_told(folder: Path, tmp_path: Path) -> None:
    """In other processes too: their registry knows no name of a local model."""
    (tmp_path / "a").mkdir()
    shutil.copytree(folder, tmp_path / "a" / "model")
    made = searcher(f"{tmp_path / 'a' / 'model'}+pi@32:center=corpus", DOCUMENTS)
    want = made.search(QUERY)
    made.save(tmp_path / "a" / "index")
    assert str(tmp_path).encode() not in (tmp_path / "a" / "index" / CURRENT).read_bytes()
    (tmp_path / "a").rename(tmp_path / "b")
    code = (
        "import sys, mteb_longembed as longembed\n"
        "found = longembed.open_search(sys.argv[1], device='cpu', model=sys.argv[2] or None)\n"
        "print([hit.id for hit in found.search(sys.argv[3])])"
    )
    index = tmp_path / "b" / "index"

    def ids(model: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", code, str(index), model, QUERY]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr

    assert ids("") == str([hit.id for hit in want])
    (tmp_path / "b" / "model").rename(tmp_path / "other name")
    with pytest.raises(DataError, match=r"is not in \.\./model: say open_search\(INDEX, model=FOLDER\)"):
        longembed.open_search(index, device="cpu")
    for model in (tmp_path / "other name", f"{tmp_path / 'other name'}+pi@32:center=corpus"):
        assert longembed.open_search(index, device="cpu", model=str(model)).search(QUERY) == want
    for model in (f"{folder}+pi@32", "mini-ape"):
        with pytest.raises(DataError, match="build the index again"):
            longembed.open_search(index, device="cpu", model=model)
    saved = longembed.load(f"{folder}+pi@32")
    saved.save_pretrained(str(tmp_path / "saved"))
    other = searcher(str(tmp_path / "saved"), DOCUMENTS)
    other.save(tmp_path / "second")
    assert len(longembed.open_search(tmp_path / "second", device="cpu")) == len(DOCUMENTS)


def test_a_save_on_top_of_another_searchers_work_is_refused(folder: Path, tmp_path: Path) -> None:
    searcher(f"{folder}+pi@32", {"d0": "a b"}).save(tmp_path / "index")
    first, second = (longembed.open_search(tmp_path / "index", device="cpu") for _ in range(2))
    first.add(["first"], ["c d"])
    second.add(["second"], ["e f"])
    first.save(tmp_path / "index")
    with pytest.raises(InputError, match="was changed by another searcher, whose work would be lost"):
        second.save(tmp_path / "index")
    assert len(second) == 2
    second.save(tmp_path / "elsewhere")
    kept = longembed.open_search(tmp_path / "index", device="cpu")
    assert {hit.id for hit in kept.search("a")} == {"d0", "first"}


INDEX_0_3 = Path(__file__).parents[1] / "data" / "index_0_3"


def test_an_index_of_version_0_3_opens_and_is_written_in_the_new_form(tmp_path: Path) -> None:
    index = shutil.copytree(INDEX_0_3, tmp_path / "index")
    old = longembed.open_search(index, device="cpu")
    want = [("key", pytest.approx(0.640517, abs=1e-4)), ("cat", pytest.approx(0.538161, abs=1e-4))]
    assert [(hit.id, hit.score) for hit in old.search("Where is the key?", k=2)] == want
    old.remove(["ö"])
    old.save(index)
    new = longembed.open_search(index, device="cpu")
    assert [(hit.id, hit.score) for hit in new.search("Where is the key?")] == want


def as_table(blob: bytes, **columns: list[Any]) -> bytes:
    """The same index with other values, written by another program."""
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(blob))
    table = file.read()
    for name, values in columns.items():
        field = table.schema.field(name)
        index = table.schema.get_field_index(name)
        table = table.set_column(index, field, pyarrow.array(values, field.type))
    out = pyarrow.BufferOutputStream()
    about = {key: value for key, value in file.metadata.metadata.items() if key != b"ARROW:schema"}
    pyarrow.parquet.write_table(table.replace_schema_metadata(about), out)
    return out.getvalue().to_pybytes()


NAN = [[float("nan")] * 192] * 3
DAMAGE = {
    "cut off": lambda blob: blob[:-40],
    "half": lambda blob: blob[: len(blob) // 2],
    "empty": lambda blob: b"",
    "no table": lambda blob: b"no table",
    "another text": lambda blob: as_table(blob, text=["a", "b", "c"]),
    "another order of ids": lambda blob: as_table(blob, id=["cat", "key", "ö"]),
    "another number": lambda blob: as_table(blob, numbers=[[0.5] * 192] * 3),
    "another model": lambda blob: blob.replace(b"mini-ape+none@512", b"mini-ape+none@513"),
    "another form": lambda blob: blob.replace(b"form\x18\x013", b"form\x18\x017"),
    "no checksum": lambda blob: blob.replace(b"checksum", b"chacksum"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    index = tmp_path_factory.mktemp("sound")
    texts = {"key": "The key is under the mat.", "cat": "The cat is on it.", "ö": "Bananas are yellow."}
    searcher("mini-ape", texts).save(index)
    return (index / CURRENT).read_bytes()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_refused(tmp_path: Path, sound: bytes, damage: str) -> None:
    assert DAMAGE[damage](sound) != sound
    (tmp_path / CURRENT).write_bytes(DAMAGE[damage](sound))
    with pytest.raises(DataError, match=r"is not complete or damaged|has form 7 of an index"):
        read_index(tmp_path)


@pytest.mark.parametrize("columns", [{"numbers": NAN}, {"id": ["key", "key", "ö"]}, {"vectors": [1, 2, 1]}])
def test_impossible_contents_are_refused_in_an_index_without_checksum_too(
    tmp_path: Path, columns: Any
) -> None:
    (tmp_path / CURRENT).write_bytes(as_table((INDEX_0_3 / CURRENT).read_bytes(), **columns))
    with pytest.raises(DataError, match="is not complete or damaged"):
        read_index(tmp_path)


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, sound: bytes) -> None:
    (tmp_path / CURRENT).write_bytes(sound)
    want = read_index(tmp_path)
    draw = np.random.default_rng(0)
    refused = 0
    for bit in draw.integers(8 * len(sound), size=400).tolist():
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / CURRENT).write_bytes(damaged)
        try:
            got = read_index(tmp_path)
        except DataError:
            refused += 1
            continue
        assert (got.model, got.texts, got.checksum) == (want.model, want.texts, want.checksum)
        assert all(np.array_equal(a, b) for a, b in zip(got.documents, want.documents, strict=True))
    assert refused > 200


@pytest.mark.parametrize("tail", ["+pi@64:fuse=bm25", "+pcw@64:size=16,vectors=window"])
def test_a_list_of_questions_gives_the_hits_of_each(folder: Path, tail: str) -> None:
    made = searcher(f"{folder}{tail}")
    questions = [QUERY, DOCUMENTS["d4"], QUERY]
    for hits, question in zip(made.search(questions, k=3), questions, strict=True):
        alone = made.search(question, k=3)
        assert [(hit.id, hit.passage) for hit in hits] == [(hit.id, hit.passage) for hit in alone]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-6)
        for hit in hits:
            text = DOCUMENTS[hit.id]
            assert hit.around(5) == text[max(hit.start - 5, 0) : hit.end + 5]
            assert hit.around(0) == hit.passage and hit.around(10**6) == text
    assert made.search([]) == []


def test_upsert_replaces_and_adds_and_encodes_only_what_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = searcher(f"{folder}+pi@64")
    new = {"d1": QUERY, "d2": DOCUMENTS["d2"], "new": "a b"}
    tables = []
    from_dict = Dataset.from_dict
    monkeypatch.setattr(Dataset, "from_dict", lambda table: tables.append(table) or from_dict(table))
    made.upsert(new.keys(), (text for text in new.values()))
    assert [table["id"] for table in tables] == [["d1", "new"]]
    monkeypatch.undo()
    want = scores_of(searcher(f"{folder}+pi@64", {**DOCUMENTS, **new}), 20)
    assert scores_of(made, 20) == pytest.approx(want, abs=1e-6)
    for ids, texts in ((["d1", "d1"], ["a", "b"]), (["d1"], ["a", "b"]), (["d1", "x"], ["a", None])):
        with pytest.raises(InputError):
            made.upsert(ids, texts)
        assert scores_of(made, 20) == pytest.approx(want, abs=1e-6)
