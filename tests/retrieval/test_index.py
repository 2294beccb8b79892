"""A saved index equals the searcher that wrote it, changes as a whole or not at all, and says where it does not fit."""

import json
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import IndexFolderError, InputError, StorageError
from mteb_longembed.retrieval import storage
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.storage import Reader, write_lock
from tests import tiny

DOCUMENTS = {f"d{i}": f"{tiny.text(5 + 9 * i, i)}. {tiny.text(9, 3)}." for i in range(12)}
MORE = {f"e{i}": f"{tiny.text(30, 50 + i)}." for i in range(4)}
QUERIES = [tiny.text(6, 3), tiny.text(4, 7), tiny.text(3, 52)]
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


def searcher(name: str, documents: dict[str, str] = DOCUMENTS) -> Searcher:
    made = longembed.search(name, device="cpu")
    made.add(list(documents), list(documents.values()))
    return made


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
    files = {path.name: path.stat().st_ino for path in (tmp_path / "index").glob("*.1*")}
    made.add(MORE.keys(), MORE.values())
    kept = [name for name in files if (tmp_path / "index" / name).exists()]
    assert sorted(name.partition(".")[0] for name in kept) == ["documents", "vectors-plain-one"]
    assert all((tmp_path / "index" / name).stat().st_ino == files[name] for name in kept)


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
    manifest = json.loads((where / "index.json").read_text())

    def refused(message: str, **changes: Any) -> None:
        (where / "index.json").write_text(json.dumps({**manifest, **changes}))
        with pytest.raises(IndexFolderError, match=message) as error:
            longembed.open_index(where, device="cpu")
        assert "\n" not in str(error.value) and str(error.value).endswith(".")

    refused("must have format 1, got 0: build it again", format=0)
    refused(
        "was built with version 2 of PyStemmer, and this is",
        versions={**manifest["versions"], "PyStemmer": "2"},
    )
    refused("was built with revision other of .*model.*, got ", revision="other")
    entry = manifest["files"]["vectors-plain-one.rows"]
    short = {**manifest["files"], "vectors-plain-one.rows": {**entry, "shape": [999, entry["shape"][1]]}}
    refused(r"the file vectors-plain-one\.rows\.1 of .* must have [\d,]+ bytes, got", files=short)
    (where / "index.json").write_text("{")
    with pytest.raises(IndexFolderError, match=r"index\.json cannot be read"):
        Reader(where)
    (where / "index.json").write_text(json.dumps(manifest))
    (where / entry["file"]).unlink()
    with pytest.raises(IndexFolderError, match=r"lacks the file vectors-plain-one\.rows\.1: build it again"):
        longembed.open_index(where)


def test_what_cannot_be_made_again_cannot_be_saved(folder: Path, tmp_path: Path) -> None:
    chunked = longembed.search("mini-ape", chunker=(lambda text: [(0, len(text))], "v1"), device="cpu")
    chunked.add(["a"], ["one"])
    with pytest.raises(
        InputError, match="cannot be saved: only a search by the name of an extended model or of BM25"
    ):
        chunked.save(tmp_path / "index")
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
