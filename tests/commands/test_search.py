"""`mteb-longembed search`: documents are encoded once, the scores are those of the Python call."""

import json
import os
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed import cli
from mteb_longembed.commands import search
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.retrieval.index_files import CURRENT
from tests import tiny
from tests.commands.test_names import KINDS

QUERY = tiny.text(6, 3)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A model's name and a file of documents. Nothing outside of `tmp_path` is written."""
    base = tiny.saved("bert", tmp_path / "base", "---\nlicense: mit\n---\n")
    corpus = tmp_path / "docs.jsonl"
    write(corpus, {f"d{i}": tiny.text(8 + 9 * i, i) for i in range(6)})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0")
    return f"{base}+pcw@64:size=16,vectors=window", corpus


def write(path: Path, documents: dict[str, str]) -> None:
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents.items()))


def read(path: Path) -> dict[str, str]:
    rows = map(json.loads, path.read_text().splitlines())
    return {row["id"]: row["text"] for row in rows}


def caches(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "mteb-longembed" / "search").glob("*"))


def asked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["search", *arguments, QUERY, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output) == [QUERY]
    return list(output[QUERY])


@pytest.mark.parametrize("where", [[], ["--index", "INDEX"]])
def test_a_second_call_encodes_the_question_only(files, where, tmp_path, capsys, encoded) -> None:
    name, corpus = files
    where = [str(tmp_path / "index") if word == "INDEX" else word for word in where]
    first = asked([name, "--corpus", str(corpus), *where], capsys)
    assert set(read(corpus).values()) <= set(encoded)
    encoded.clear()
    assert asked([name, "--corpus", str(corpus), *where], capsys) == first
    assert not set(read(corpus).values()) & set(encoded) and QUERY in encoded


def test_hits_are_those_of_the_python_call(files, capsys) -> None:
    name, corpus = files
    searcher = longembed.search(name)
    searcher.add(*zip(*read(corpus).items(), strict=True))
    want = [(hit.id, round(hit.score, 5), hit.passage) for hit in searcher.search(QUERY, k=3)]
    hits = asked([name, "--corpus", str(corpus), "-k", "3"], capsys)
    assert [(hit["id"], round(hit["score"], 5), hit["passage"]) for hit in hits] == want
    assert cli.main(["search", name, "--corpus", str(corpus), "-k", "1", QUERY]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"1. {want[0][1]:.3f}  {want[0][0]}  characters ")


def test_an_index_follows_the_documents(files, tmp_path, capsys, encoded) -> None:
    name, corpus = files
    index = ["--index", str(tmp_path / "index")]
    asked([name, "--corpus", str(corpus), *index], capsys)
    documents = {**read(corpus), "d1": QUERY, "new": tiny.text(20, 99)}
    del documents["d5"]
    write(corpus, documents)
    encoded.clear()
    hits = asked([name, "--corpus", str(corpus), "-k", "9", *index], capsys)
    assert {hit["id"] for hit in hits} == set(documents) and hits[0]["id"] == "d1"
    assert not {documents["d0"], documents["d2"]} & set(encoded)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mini-ape", "--corpus", "CORPUS", "-k", "0", "a"], "-k must be at least 1 document, got 0"),
        (["mini-ape", "--corpus", "nowhere.jsonl", "a"], "nowhere.jsonl"),
        (["mini-ape"], "search needs a model and --corpus with the documents, or --clear alone"),
        (["nope/nope", "--corpus", "CORPUS", "a"], "cannot load 'nope/nope'"),
        (["./nope", "--corpus", "CORPUS", "a"], "cannot load './nope'"),
    ],
)
def test_wrong_arguments_and_names_are_one_sentence(files, empty_hub, arguments, message, capsys) -> None:
    assert cli.main(["search", *(str(files[1]) if word == "CORPUS" else word for word in arguments)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1].replace("mteb cannot", "cannot")
    assert f"mteb-longembed: {message}" in said


def test_a_question_without_words_is_refused_before_documents_are_encoded(files, capsys, encoded) -> None:
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY, " "]) == 2
    assert "a query must be a text with words" in capsys.readouterr().err and not encoded


def test_nothing_in_a_document_moves_the_cursor(files, capsys) -> None:
    write(files[1], {"a": f"{QUERY} \x1b]0;title\x07 {QUERY}"})
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY]) == 0
    output = capsys.readouterr().out
    assert "title" in output and not {"\x1b", "\x07"} & set(output)


def test_an_index_stays_when_the_folder_of_its_model_moves(files, tmp_path, capsys, encoded) -> None:
    name, corpus = files
    index = ["--index", str(tmp_path / "index")]
    hits = asked([name, "--corpus", str(corpus), *index], capsys)
    (tmp_path / "base" / "model").rename(tmp_path / "base" / "moved")
    encoded.clear()
    assert asked([name.replace("/model+", "/moved+"), "--corpus", str(corpus), *index], capsys) == hits
    assert not set(read(corpus).values()) & set(encoded)


def test_what_was_read_is_reported_in_each_call_and_nothing_cuts_into_the_bar(files, capsys) -> None:
    name = files[0].replace("@64:size=16,vectors=window", "@32:size=16")
    write(files[1], {"a": tiny.text(200), "b": tiny.text(8)})
    for n_new in (2, 0):
        assert cli.main(["search", name, "--corpus", str(files[1]), QUERY]) == 0
        message = capsys.readouterr().err
        assert f"{n_new} of 2 documents are new or changed." in message and "texts lose" not in message
        assert ("the model read" in message and "tokens a document on average" in message) == (n_new > 0)


def test_an_index_of_another_model_is_refused(files, tmp_path, capsys) -> None:
    name, corpus = files
    index = ["--index", str(tmp_path / "index")]
    asked([name, "--corpus", str(corpus), *index], capsys)
    assert cli.main(["search", name.replace("@64", "@48"), "--corpus", str(corpus), *index, QUERY]) == 2
    assert "give another --index" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [kind.replace("named", "tiny") for kind in (*KINDS.values(), "bm25")])
def test_every_kind_of_name_answers_several_questions_twice(files, kind, tmp_path, empty_hub, capsys) -> None:
    base = tmp_path / "base" / "model"
    empty_hub.add("mteb/tiny", base)
    longembed.load(f"{base}+pi@64").save_pretrained(str(tmp_path / "saved"))
    name = kind.replace("FOLDER", str(base)).replace("SAVED", str(tmp_path / "saved"))
    call = ["search", name, "--corpus", str(files[1]), "--json", QUERY, "another question"]
    answers = []
    for _ in range(2):
        assert cli.main(call) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1] and list(answers[0]) == [QUERY, "another question"]
    assert all(len(hits) == 5 for hits in answers[0].values())
    assert len(caches(tmp_path)) == 1


def test_a_plain_name_of_the_hub_keeps_its_vectors(files, empty_hub, tmp_path, capsys, monkeypatch) -> None:
    empty_hub.add("mteb/tiny", tmp_path / "base" / "model")
    first = asked(["mteb/tiny", "--corpus", str(files[1])], capsys)
    sizes = []
    encode = SentenceTransformer.encode

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(len([*args, *kwargs.values()][0]))
        return encode(self, *args, **kwargs)

    monkeypatch.setattr(SentenceTransformer, "encode", counting)
    assert asked(["mteb/tiny", "--corpus", str(files[1])], capsys) == first
    assert sizes == [1]


@pytest.mark.parametrize("name", ["OURS", "mteb/tiny"])
def test_an_interrupted_call_goes_on(files, empty_hub, name, tmp_path, capsys, monkeypatch) -> None:
    empty_hub.add("mteb/tiny", tmp_path / "base" / "model")
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(search, "_LEAST", 100)
    documents = {f"d{i}": f"{i} {tiny.text(60, i)}" for i in range(400)}
    write(files[1], documents)
    finished: list[int] = []
    where, method = (EmbeddingStore, "put_many") if name == "OURS" else (SentenceTransformer, "encode")
    stock = getattr(where, method)

    def interrupted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(finished) == 2:
            raise KeyboardInterrupt
        result = stock(self, *args, **kwargs)
        finished.append(len([*args, *kwargs.values()][0]))
        return result

    call = [name.replace("OURS", files[0].partition("+")[0] + "+pi@64"), "--corpus", str(files[1])]
    monkeypatch.setattr(where, method, interrupted)
    assert cli.main(["search", *call]) == 130
    message = capsys.readouterr().err
    assert "400 of 400 documents are new or changed." in message and "the same command continues" in message
    n_finished = sum(finished)
    finished.append(0)  # now nothing interrupts
    assert cli.main(["search", *call]) == 0
    assert 0 < n_finished < 400 and sum(finished) == 400
    assert "400 documents are indexed" in capsys.readouterr().out


def test_the_cache_has_one_index_for_a_model_and_a_file_and_is_its_owners_alone(
    files, tmp_path, capsys
) -> None:
    name, corpus = files
    asked([name, "--corpus", str(corpus)], capsys)
    (index,) = caches(tmp_path)
    write(corpus, {"d0": read(corpus)["d0"], "new": QUERY})
    assert [hit["id"] for hit in asked([name, "--corpus", str(corpus)], capsys)] == ["new", "d0"]
    assert caches(tmp_path) == [index]
    if os.name == "posix":
        assert stat.S_IMODE(index.parent.stat().st_mode) == 0o700
    (index / CURRENT).write_bytes(b"damaged")
    assert len(asked([name, "--corpus", str(corpus)], capsys)) == 2
    assert cli.main(["search", "--clear"]) == 0
    assert "1 indexes with" in capsys.readouterr().out and not index.parent.exists()


def test_what_is_not_read_or_has_no_text_is_named(files, tmp_path, capsys) -> None:
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    texts = {"a.txt": "a b", "inner/b.md": "c d", "empty.txt": " \n", "c.pdf": "%", "d.pdf": "%"}
    for file, text in texts.items():
        (folder / file).write_text(text)
    (folder / "linked").symlink_to(folder / "inner")
    assert cli.main(["search", files[0], "--corpus", str(folder), QUERY]) == 0
    shown = capsys.readouterr()
    assert "empty.txt" not in shown.out
    assert "left out, because they have no text: 1, such as empty.txt." in shown.err
    assert "not read: 2 .pdf, 1 linked/ (a link)." in shown.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_and_a_folder_of_tables_and_texts_are_refused(files, tmp_path, capsys) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "README.md").write_text("about")
    (tmp_path / "clone" / "data.jsonl").write_text("{}")
    for corpus, why in (("pipe", "got a pipe or a device"), ("clone", "expected texts or tables, got both")):
        assert cli.main(["search", files[0], "--corpus", str(tmp_path / corpus), QUERY]) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert why in line


def test_an_answer_comes_though_the_index_cannot_be_written(files, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    assert len(asked([files[0], "--corpus", str(files[1])], capsys)) == 5
