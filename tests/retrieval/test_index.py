"""A saved index equals the searcher that wrote it, changes as a whole or not at all, and says where it does not fit."""

import contextlib
import json
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mteb_longembed as longembed
from mteb_longembed.errors import IndexFolderError, InputError, StorageError
from mteb_longembed.retrieval import storage
from mteb_longembed.retrieval.manifest import Manifest
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.storage import Reader, write_lock
from tests import tiny
from tests.retrieval.indexes import DOCUMENTS, MORE, QUERIES, searcher

TAILS = [
    "bm25:window=6",
    "+pi@64",
    "+pcw@64:size=16,vectors=window,weights=idf,whiten=0.5,fusion=bm25",
    "+pcw@64:size=16,vectors=4,query=tokens",
    "+lexical:window=6",
]
#: Parts of fits stay as they were when documents are added, so that a fresh build has others.
UNFITTED = [tail for tail in TAILS if "whiten" not in tail]


def name_of(tail: str, folder: Path) -> str:
    return tail if tail.startswith("bm25") else f"{folder}{tail}"


def scores(of: Searcher) -> np.ndarray:
    return of.scorer.scores(QUERIES)


@pytest.mark.parametrize("tail", TAILS)
def test_an_opened_index_gives_what_its_searcher_gave_bit_for_bit(folder: Path, tmp_path, tail) -> None:
    made = searcher(name_of(tail, folder))
    want = scores(made), made.search(QUERIES, 5)
    made.save(tmp_path / "index")
    opened = longembed.open_index(tmp_path / "index", device="cpu")
    copied = pickle.loads(pickle.dumps(opened))
    for one in (made, opened, copied):
        assert (scores(one) == want[0]).all() and one.search(QUERIES, 5) == want[1]
    assert len(opened) == len(DOCUMENTS) and opened.n_vectors == made.n_vectors


@pytest.mark.parametrize("tail", UNFITTED)
def test_added_removed_and_replaced_documents_score_as_in_a_fresh_build(folder: Path, tmp_path, tail) -> None:
    name = name_of(tail, folder)
    made = searcher(name)
    made.save(tmp_path / "index")
    opened = longembed.open_index(tmp_path / "index", device="cpu")
    opened.add(MORE.keys(), MORE.values())
    opened.remove(["d3", "e1"])
    opened.replace(["d5"], ["Quite another text about the keeper."])
    want = {**DOCUMENTS, **MORE, "d5": "Quite another text about the keeper."}
    for key in ("d3", "e1"):
        del want[key]
    want["d5"] = want.pop("d5")
    fresh = searcher(name, want)
    again = longembed.open_index(tmp_path / "index", device="cpu")
    for one in (opened, again):
        assert [hit.id for hit in one.search(QUERIES[0], 99)] == [
            hit.id for hit in fresh.search(QUERIES[0], 99)
        ]
        assert scores(one) == pytest.approx(scores(fresh), abs=1e-5)


def test_vectors_that_are_there_are_not_written_again(folder: Path, tmp_path: Path) -> None:
    made = searcher(f"{folder}+pi@64")
    made.save(tmp_path / "index")
    before = dict(Reader(tmp_path / "index").manifest.files)
    made.add(MORE.keys(), MORE.values())
    after = Reader(tmp_path / "index").manifest.files
    kept = [name for name, entry in after.items() if entry.segments[0] == before[name].segments[0]]
    assert {"documents", "vectors-plain-one.rows"} <= set(kept)
    made.add(["f"], ["A lamp."])
    sizes = [
        segment.rows
        for segment in Reader(tmp_path / "index").manifest.files["vectors-plain-one.rows"].segments
    ]
    assert sizes == [12, 4, 1]


def test_segments_of_similar_size_are_merged(folder: Path, tmp_path: Path) -> None:
    made = searcher(f"{folder}+pi@64", {"d": "A lamp."})
    made.save(tmp_path / "index")
    for number in range(20):
        made.add([f"d{number}"], [tiny.text(9, number)])
        opened = longembed.open_index(tmp_path / "index", device="cpu")
        assert scores(opened) == pytest.approx(scores(made), abs=1e-6)
    files = Reader(tmp_path / "index").manifest.files
    assert [segment.rows for segment in files["vectors-plain-one.rows"].segments] == [16, 4, 1]
    assert len(files["documents"].segments) == 3


def test_all_documents_may_be_replaced_and_an_empty_index_is_refused(tmp_path: Path) -> None:
    made = searcher("bm25:window=6", {"a": "one lamp", "b": "two lamps", "c": " "})
    made.save(tmp_path / "index")
    made.replace(["a", "b"], ["three bells", "four bells"])
    assert made.search("bells")[0].id == "a" and not made.search("lamp") and made.empty == ["c"]
    with pytest.raises(InputError, match="an index needs documents with text"):
        made.remove(["a", "b"])
    assert made.search("bells")[0].id == "a"
    with pytest.raises(InputError, match=r"an id must be known to be removed, got 'x'"):
        made.remove(["x"])


# ---- one writer, and readers of the version that they opened


def test_one_process_writes_at_a_time_and_never_over_a_version_that_it_has_not_seen(tmp_path: Path) -> None:
    made = searcher("bm25:window=6")
    made.save(tmp_path / "index")
    other = longembed.open_index(tmp_path / "index")
    before = scores(other)
    with (
        write_lock(tmp_path / "index"),
        pytest.raises(IndexFolderError, match=r"process \d+ on \S+ does: wait"),
    ):
        made.add(["x"], ["lamp"])
    assert len(made) == len(DOCUMENTS)
    made.add(["x"], ["lamp"])
    assert (scores(other) == before).all() and len(other) == len(DOCUMENTS)
    with pytest.raises(IndexFolderError, match=r"was changed after it was opened: open it again\.$"):
        other.add(["y"], ["lamp"])
    with pytest.raises(InputError, match=r"holds an index already"):
        searcher("bm25:window=6").save(tmp_path / "index")


def test_an_add_that_fails_leaves_the_index_and_the_searcher_as_they_were(tmp_path, monkeypatch) -> None:
    made = searcher("bm25:window=6")
    made.save(tmp_path / "index")
    before = scores(made)
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", lambda *_: exec("raise OSError(28, 'No space left on device')"))
        with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\)"):
            made.add(MORE.keys(), MORE.values())
    assert (scores(made) == before).all()
    made.add(MORE.keys(), MORE.values())
    assert len(longembed.open_index(tmp_path / "index")) == len(DOCUMENTS) + len(MORE)


WORKER = """
import sys, mteb_longembed as longembed
folder, mode = sys.argv[1:]
print("ready", flush=True)
for i in range(1000):
    if mode == "build":
        made = longembed.search("bm25:window=6")
        made.add([f"n{j}" for j in range(20)], [f"lamp number{j} " * 50 for j in range(20)])
        made.save(f"{folder}-{i}")
        continue
    opened = longembed.open_index(folder)
    if mode == "add":
        opened.add([f"n{i}"], [f"lamp number{i} " * 50])
    elif i % 2:
        opened.remove(["d1"])
    else:
        opened.add(["d1"], ["the lamp of d1 " * 50])
    print(i, flush=True)
"""


def killed_after(folder: Path, mode: str, seconds: float) -> None:
    """Kill a process that changes an index, or builds new ones, again and again."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), mode], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_killed(tmp_path: Path, n: int) -> None:
    rng = random.Random(n)
    documents = {**DOCUMENTS}
    del documents["d1"]
    made = searcher("bm25:window=6", documents)
    made.save(tmp_path / "index")
    for turn in range(n):
        killed_after(tmp_path / "index", "add" if turn % 2 else "change", rng.uniform(0.0, 0.4))
        opened = longembed.open_index(tmp_path / "index")
        texts = dict(opened.texts())
        assert set(documents) <= set(texts)
        fresh = searcher("bm25:window=6", texts)
        assert opened.scorer.scores(["lamp number1", *QUERIES]) == pytest.approx(
            fresh.scorer.scores(["lamp number1", *QUERIES]), abs=1e-5
        )
        added = [key for key in texts if key.startswith("n") or key == "d1"]
        if added:
            opened.remove(added)
        killed_after(tmp_path / f"built-{turn}", "build", rng.uniform(0.0, 0.4))
        check_built(tmp_path, f"built-{turn}-*")


def check_built(root: Path, pattern: str) -> None:
    """Each folder has a whole index or none, and one without can be built again."""
    texts = {f"n{j}": f"lamp number{j} " * 50 for j in range(20)}
    fresh = searcher("bm25:window=6", texts)
    folders = sorted(root.glob(pattern), key=lambda path: int(path.name.rpartition("-")[2]))
    assert all(map(storage.holds_index, folders[:-1]))
    for path in folders:
        if not storage.holds_index(path):
            searcher("bm25:window=6", texts).save(path)
        opened = longembed.open_index(path)
        assert (opened.scorer.scores(QUERIES) == fresh.scorer.scores(QUERIES)).all()


def test_a_process_that_is_killed_leaves_the_old_or_the_new_version(tmp_path: Path) -> None:
    check_killed(tmp_path, 3)


@pytest.mark.long
def test_a_process_that_is_killed_twenty_times_leaves_the_old_or_the_new_version(tmp_path: Path) -> None:
    check_killed(tmp_path, 20)


def test_who_asks_while_another_process_adds_never_sees_half_a_document(tmp_path: Path) -> None:
    searcher("bm25:window=6").save(tmp_path / "index")
    command = [sys.executable, "-c", WORKER, str(tmp_path / "index"), "add"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    seen = set()
    deadline = time.monotonic() + 60
    while len(seen) < 6 and time.monotonic() < deadline:
        opened = longembed.open_index(tmp_path / "index")
        new = [key for key, _ in opened.texts() if key.startswith("n")]
        seen.add(len(new))
        assert new == [f"n{i}" for i in range(len(new))]
        for key in new:
            assert opened.search(key.replace("n", "number"), 1)[0].id == key
    process.kill()
    process.wait()
    assert len(seen) >= 6


# ---- a folder that does not fit


def test_a_folder_that_does_not_fit_is_told_in_one_sentence(folder, tmp_path, monkeypatch) -> None:
    where = tmp_path / "index"
    with pytest.raises(IndexFolderError, match=r"holds no index, because it has no index\.json"):
        longembed.open_index(tmp_path)
    base = tiny.saved("bert", tmp_path / "base")
    searcher(f"{base}+pi@64").save(where)
    content = (where / "index.json").read_text()
    manifest = Reader(where).manifest.model_dump()

    def refused(message: str, **changes: Any) -> None:
        changed = Manifest.model_validate({**manifest, **changes}).sealed()
        (where / "index.json").write_text(json.dumps(changed))
        with pytest.raises(IndexFolderError, match=message) as error:
            longembed.open_index(where, device="cpu")
        assert "\n" not in str(error.value) and str(error.value).endswith(".")

    refused("must have format 3, got 0: build it again", format=0)
    assert manifest["versions"] == {}  # vectors alone do not depend on BM25
    refused("was built with revision other of .*model.*, got ", revision="other")
    path = where / manifest["files"]["vectors-plain-one.rows"]["segments"][0]["file"]
    (where / "index.json").write_text("{")
    with pytest.raises(IndexFolderError, match=r"index\.json cannot be read"):
        Reader(where)
    (where / "index.json").write_text(content.replace('"documents": 12', '"documents": 13'))
    with pytest.raises(IndexFolderError, match=r"index\.json is damaged, because its checksum has changed"):
        Reader(where)
    (where / "index.json").write_text(content)
    rows = path.read_bytes()
    path.write_bytes(rows[:-4])
    with pytest.raises(
        IndexFolderError, match=r"the file version-1-.*vectors-plain-one.* must have [\d,]+ bytes, got"
    ):
        Reader(where)
    path.unlink()
    with pytest.raises(
        IndexFolderError, match=r"lacks the file vectors-plain-one\.rows-0\.data: build it again"
    ):
        longembed.open_index(where)


def test_an_index_of_another_version_of_bm25_or_of_the_stemmer_is_refused(
    tmp_path: Path, monkeypatch
) -> None:
    searcher("bm25:window=6").save(tmp_path / "index")
    versions = PassageBM25.versions.fget(None)
    for component in versions:
        monkeypatch.setattr(PassageBM25, "versions", {**versions, component: "0"})
        with pytest.raises(
            IndexFolderError, match=rf"built with version {versions[component]} of {component}, and this"
        ):
            longembed.open_index(tmp_path / "index")


def test_a_flipped_byte_is_reported_at_opening_in_small_files_and_by_check_in_all(
    folder, tmp_path, monkeypatch
) -> None:
    made = searcher(f"{folder}+pi@64:fusion=bm25")
    made.save(tmp_path / "index")
    n_bytes = made.check()
    files = sorted(path for path in (tmp_path / "index").glob("version-*/*") if path.stat().st_size)
    assert n_bytes == sum(path.stat().st_size for path in files) and len(files) > 9
    for path in files:
        content = path.read_bytes()
        at = len(content) // 2
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(IndexFolderError, match=rf"{re.escape(path.name)} of .* is damaged"):
            Reader(tmp_path / "index")
        with monkeypatch.context() as patch:
            patch.setattr(storage, "CHECKED_BYTES", 0)
            reader = Reader(tmp_path / "index")
            with pytest.raises(IndexFolderError, match=r"is damaged, because its checksum has changed"):
                reader.check()
        path.write_bytes(content)
    assert longembed.open_index(tmp_path / "index", device="cpu").check() == n_bytes


@pytest.mark.parametrize("first", [["index.json"], ["version-*"], []])
def test_an_old_copy_partly_overwritten_by_a_new_build_answers_as_one_of_them(tmp_path: Path, first) -> None:
    old = {f"d{i}": f"lamp number{i}" for i in range(9)}
    new = {f"d{i}": f"bell number{8 - i}" for i in range(9)}
    searcher("bm25:window=6", old).save(tmp_path / "index")
    searcher("bm25:window=6", new).save(tmp_path / "new")
    for pattern in first:
        for path in (tmp_path / "new").glob(pattern):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, tmp_path / "index" / path.name)
    if first == ["index.json"]:
        with pytest.raises(IndexFolderError, match="lacks the file"):
            longembed.open_index(tmp_path / "index")
        return
    opened = longembed.open_index(tmp_path / "index")
    assert dict(opened.texts()) == old and opened.search("number3")[0].id == "d3"


# ---- files that are not ours


NAMES = st.text(st.sampled_from("abv-.123/_ "), min_size=1, max_size=12).filter(
    lambda name: not name.startswith("/") and ".." not in name and name.strip(" ./") == name
)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=1, max_size=6), inside=st.booleans())
def test_other_files_of_an_index_folder_stay_for_ever(
    tmp_path_factory, names: list[str], inside: bool
) -> None:
    folder = tmp_path_factory.mktemp("index") / "index"
    made = searcher("bm25:window=6", {"d1": "one lamp", "d2": "two lamps"})
    made.save(folder)
    root = next(folder.glob("version-*")) if inside else folder
    strangers = {}
    for name in [
        *names,
        "documents.1.arrows",
        "version-1",
        "version-1-0123",
        "README.md",
        ".index.json.part",
    ]:
        path = root / name
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            strangers[path] = name
    made.add(["d3"], ["three lamps"])
    with pytest.raises(InputError):
        made.add(["d3"], ["twice"])
    made.remove(["d1"])
    made.replace(["d2"], ["two bells"])
    (folder / "version-7-0123456789abcdef").mkdir()  # of a run that was killed
    longembed.open_index(folder).add(["d4"], ["four lamps"])
    assert {path: path.read_text() for path in strangers} == strangers
    assert not (folder / "version-7-0123456789abcdef").exists()


def test_an_index_is_saved_only_to_a_new_or_an_empty_folder(tmp_path: Path) -> None:
    made = searcher("bm25:window=6")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/README.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(
        InputError, match=r"needs a new or an empty folder, and .*notes holds README\.md: give another"
    ):
        made.save(tmp_path / "notes")
    with pytest.raises(
        InputError, match=r"an index is a folder, but '.*file' is a file: give another folder"
    ):
        made.save(tmp_path / "file")
    with pytest.raises(InputError, match=r"an index is a folder, but '.*file' is a file|cannot be made"):
        made.save(tmp_path / "file/inside")
    assert contents(tmp_path) == before and made.folder is None
    (tmp_path / "empty").mkdir()
    made.save(tmp_path / "empty")
    assert len(longembed.open_index(tmp_path / "empty")) == len(DOCUMENTS)


def test_a_refused_index_leaves_no_folder_behind(tmp_path: Path, monkeypatch) -> None:
    made = searcher("bm25:window=6")
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", lambda *_: exec("raise OSError(28, 'No space left on device')"))
        with pytest.raises(StorageError, match=r"cannot be written \(No space left on device\): make room"):
            made.save(tmp_path / "a/b/index")
    with pytest.raises(InputError, match="an index needs documents with text"):
        longembed.search("bm25:window=6").save(tmp_path / "c")
    assert contents(tmp_path) == {} and list(tmp_path.iterdir()) == []
    made.save(tmp_path / "a/b/index")


def test_a_change_of_a_read_only_index_is_refused_in_one_sentence(tmp_path: Path, monkeypatch) -> None:
    made = searcher("bm25:window=6")
    made.save(tmp_path / "index")
    before = contents(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(storage.FileLock, "acquire", refuse)
    for change in (lambda: made.add(["x"], ["y"]), lambda: made.remove(["d1"])):
        with pytest.raises(
            StorageError, match=r"cannot be changed \(Read-only file system\): make the folder writable"
        ):
            change()
    assert contents(tmp_path) == before and len(made) == len(DOCUMENTS)


# ---- three processes that know nothing of one another


def test_a_version_that_was_built_anew_is_never_written_over(tmp_path: Path) -> None:
    first = searcher("bm25:window=6", {"a": "one lamp"})
    first.save(tmp_path / "index")
    shutil.rmtree(tmp_path / "index")
    second = searcher("bm25:window=6", {"b": "two bells"})
    second.save(tmp_path / "index")
    for change in (lambda: first.add(["c"], ["three"]), lambda: first.save(tmp_path / "index")):
        with pytest.raises(IndexFolderError, match="was changed after it was opened: open it again"):
            change()
    assert dict(longembed.open_index(tmp_path / "index").texts()) == {"b": "two bells"}
    assert first.search("lamp")[0].id == "a"


ACTOR = """
import random, shutil, sys, mteb_longembed as longembed
from mteb_longembed.errors import LongEmbedError
folder, seed, n = sys.argv[1:]
rng = random.Random(seed)
opened = None
def fresh():
    made = longembed.search("bm25:window=6")
    made.add([f"{seed}d{j}" for j in range(9)], [f"lamp number{seed}d{j} " * 30 for j in range(9)])
    return made
for i in range(int(n)):
    try:
        action = rng.choice(["open", "add", "save", "rebuild", "search"])
        if action == "rebuild" and rng.random() < 0.5:
            fresh().save(f"{folder}-{seed}")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.move(f"{folder}-{seed}", folder)
        elif action == "open" or opened is None:
            opened = longembed.open_index(folder)
        elif action == "add":
            opened.add([f"{seed}n{i}"], [f"lamp number{seed}n{i} " * 30])
        elif action == "save":
            opened.save(folder)
        for key, text in [] if opened is None else opened.texts():
            assert opened.search(f"number{key}", 1)[0].id == key and text.startswith(f"lamp number{key} ")
    except LongEmbedError:
        pass
    except OSError:
        shutil.rmtree(f"{folder}-{seed}", ignore_errors=True)
"""


def check_processes(tmp_path: Path, seed: int, n: int) -> None:
    """Run `n` random actions in each of three processes."""
    searcher("bm25:window=6", {"a": "lamp numbera "}).save(tmp_path / "index")
    processes = []
    for actor in "xyz":
        command = [sys.executable, "-c", ACTOR, str(tmp_path / "index"), f"{actor}{seed}", str(n)]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors


def test_three_processes_answer_from_one_version_each(tmp_path: Path) -> None:
    check_processes(tmp_path, 0, 8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_three_processes_answer_from_one_version_each_for_long(tmp_path: Path, seed: int) -> None:
    check_processes(tmp_path, seed, 25)


def test_what_cannot_be_made_again_cannot_be_saved(folder: Path, tmp_path: Path) -> None:
    nameless = Searcher(searcher("bm25:window=6").scorer)
    nameless.add(["a"], ["one"])
    with pytest.raises(
        InputError, match="cannot be saved: only a search by the name of an extended model or of BM25"
    ):
        nameless.save(tmp_path / "index")
    with pytest.raises(InputError, match="an index needs documents with text"):
        longembed.search("bm25").save(tmp_path / "other")


ALONE = """
import sys, mteb_longembed as longembed
opened = longembed.open_index(sys.argv[1])
hits = opened.search(sys.argv[2])
opened.add(["new"], ["a lamp"])
loaded = {"torch", "transformers", "mteb", "sentence_transformers", "datasets"} & set(sys.modules)
print(len(hits), sorted(loaded))
"""


def test_an_index_of_bm25_opens_and_grows_without_torch_transformers_and_mteb(tmp_path: Path) -> None:
    searcher("bm25:window=6").save(tmp_path / "index")
    command = [sys.executable, "-c", ALONE, str(tmp_path / "index"), QUERIES[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1)[1].strip() == "[]" and int(done.stdout.split()[0]) > 0
