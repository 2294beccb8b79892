"""`mteb-longembed search`: documents are encoded once, the scores equal the Python call's."""

import contextlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed import cli
from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.retrieval import storage
from mteb_longembed.retrieval.vector_scorer import VectorScorer
from tests import tiny

QUERY = tiny.text(6, 3)


@pytest.fixture
def files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A model's name and a file of documents. Nothing outside of `tmp_path` is written."""
    corpus = tmp_path / "docs.jsonl"
    write(corpus, {f"d{i}": tiny.text(8 + 9 * i, i) for i in range(6)})
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    return f"{folder}+pcw@64:size=16,vectors=window", corpus


def write(path: Path, documents: dict[str, str]) -> None:
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents.items()))


def read(path: Path) -> dict[str, str]:
    rows = map(json.loads, path.read_text().splitlines())
    return {row["id"]: row["text"] for row in rows}


def searched(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["search", *arguments, QUERY, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output) == [QUERY]
    return list(output[QUERY])


@pytest.mark.parametrize("tail", ["", ",fusion=bm25"])
def test_a_second_call_encodes_nothing_twice(files, tail, capsys) -> None:
    name, corpus = files
    call = [name + tail, "--corpus", str(corpus)]
    put_many = EmbeddingCache.put_many
    with mock.patch.object(EmbeddingCache, "put_many", autospec=True, side_effect=put_many) as put:
        first = searched(call, capsys)
        assert put.called
        put.reset_mock()
        assert searched(call, capsys) == first and not put.called
        write(corpus, {**read(corpus), "new": tiny.text(20, 99)})
        hits = searched([*call, "-k", "9"], capsys)
    stored = [len(one.args[1]) for one in put.call_args_list]
    # the vectors of windows and one vector; further documents change the pseudo-queries of the temperature
    assert len(hits) == 7 and (sum(stored) == 2 or bool(tail))


def test_an_index_is_cached_for_a_corpus_and_after_a_change_only_the_change_is_encoded(
    files, tmp_path, capsys, encoded
) -> None:
    name, corpus = files
    call = ["search", name, QUERY, "--corpus", str(corpus), "-k", "9"]
    assert cli.main(call) == 0
    assert (
        f"the index of 6 documents is cached in {tmp_path / 'cache' / 'indexes'}" in capsys.readouterr().err
    )
    encoded.clear()
    assert cli.main(call) == 0 and not encoded  # the question is in the embedding cache
    first = capsys.readouterr().out
    rows = read(corpus)
    del rows["d1"]
    write(corpus, {**rows, "d2": tiny.text(9, 77), "new": f"{QUERY} {tiny.text(9, 78)}"})
    encoded.clear()
    assert cli.main(call) == 0
    assert [text for text in encoded if text != "passage : "] == [
        f"{QUERY} {tiny.text(9, 78)}",
        tiny.text(9, 77),
    ]
    changed = capsys.readouterr().out
    assert changed != first and "  new  " in changed and "  d1  " not in changed
    assert cli.main([*call, "--no-cache"]) == 0
    assert capsys.readouterr().out == changed


def test_the_cached_index_of_another_language_is_another_index(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    corpus = tmp_path / "docs.jsonl"
    write(corpus, {"a": "Die Häuser am Hafen", "b": "Ein Schiff"})
    for language, found in (("eng", 0), ("deu", 1), ("eng", 0)):
        call = ["search", "bm25:window=6", "Haus", "--corpus", str(corpus), "--language", language, "--json"]
        assert cli.main(call) == 0
        assert len(json.loads(capsys.readouterr().out)["Haus"]) == found
    assert len(list((tmp_path / "cache" / "indexes").iterdir())) == 2


def test_a_cache_that_cannot_be_used_costs_a_warning_and_no_answer(
    files, tmp_path, capsys, monkeypatch
) -> None:
    name, corpus = files
    call = [name, "--corpus", str(corpus)]
    want = searched([*call, "--no-cache"], capsys)
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", lambda *_: exec("raise OSError(28, 'No space left on device')"))
        with pytest.warns(RuntimeWarning, match=r"cannot be used .*No space left.* continues without it"):
            assert searched(call, capsys) == want
    assert searched(call, capsys) == want
    (index,) = (tmp_path / "cache" / "indexes").iterdir()
    content = (index / "index.json").read_bytes()
    (index / "index.json").write_bytes(content[:99])  # the disk was full, or the machine lost power
    with pytest.warns(
        RuntimeWarning, match=r"cannot be used .*`mteb-longembed cache --clear` removes damaged"
    ):
        assert searched(call, capsys) == want
    assert cli.main(["cache"]) == 0
    assert f"index that cannot be opened, {index.name}" in capsys.readouterr().out
    (tmp_path / "cache" / "indexes" / "notes").mkdir()
    (tmp_path / "cache" / "indexes" / "notes" / "index.json").write_text("{}")
    (index / "notes.txt").write_text("mine")
    (tmp_path / "cache" / "embeddings.txt").write_text("mine")
    assert cli.main(["cache", "--clear"]) == 0
    kept = [
        path.relative_to(tmp_path / "cache") for path in (tmp_path / "cache").rglob("*") if path.is_file()
    ]
    assert sorted(map(str, kept)) == [
        "embeddings.txt",
        f"indexes/{index.name}/notes.txt",
        "indexes/notes/index.json",
    ]


def answer(call: list[str], output: Path, start: Any) -> None:
    """Run our command when all processes are ready, and exit with its status."""
    with output.open("w") as stream, contextlib.redirect_stdout(stream):
        start.wait()
        sys.exit(cli.main(call))


def test_several_searches_of_one_corpus_at_once_all_answer(files, tmp_path) -> None:
    _, corpus = files
    call = ["search", "bm25:window=6", QUERY, "--corpus", str(corpus)]
    outputs = [tmp_path / "first", tmp_path / "second"]
    start = multiprocessing.Barrier(len(outputs))
    running = [multiprocessing.Process(target=answer, args=(call, output, start)) for output in outputs]
    for process in running:
        process.start()
    for process in running:
        process.join(timeout=300)
    assert [process.exitcode for process in running] == [0, 0]
    answers = [output.read_text() for output in outputs]
    assert answers[0] and len(set(answers)) == 1
    assert len(list((tmp_path / "cache" / "indexes").iterdir())) == 1


def test_a_cached_index_looks_for_passages_only_if_the_call_wants_them(files, folder, capsys) -> None:
    _, corpus = files
    write(corpus, {"long": f"{tiny.text(300, 1)}. {QUERY}. {tiny.text(300, 2)}"})
    call = [f"{folder}+pi@1k", "--corpus", str(corpus)]
    windows = searched(call, capsys)
    whole = searched([*call, "--no-passages", "--no-cache"], capsys)
    assert whole != windows
    for _ in range(2):
        assert searched([*call, "--no-passages"], capsys) == whole
    assert searched(call, capsys) == windows


def test_an_index_is_saved_to_a_folder_and_searched_by_it(files, tmp_path, capsys) -> None:
    name, corpus = files
    where = str(tmp_path / "index")
    assert cli.main(["index", name, "--corpus", str(corpus), "--to", where]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Saved {where}: 6 documents, ") and " vectors, " in shown and " MB, " in shown
    assert cli.main(["search", where, QUERY, "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)[QUERY]
    assert hits == searched([name, "--corpus", str(corpus)], capsys)
    assert cli.main(["search", where, QUERY, "--corpus", str(corpus)]) == 2
    assert "leave out --corpus" in capsys.readouterr().err
    assert cli.main(["index", name, "--corpus", str(corpus), "--to", where]) == 2
    assert "holds an index already" in capsys.readouterr().err
    assert cli.main(["index", "--check", where]) == 0
    assert capsys.readouterr().out.endswith(" MB, no file is damaged.\n")
    assert cli.main(["index", name]) == 2
    assert "--corpus is needed to build an index" in capsys.readouterr().err
    assert cli.main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert "embeddings" in shown and "index of 6 documents" in shown
    assert cli.main(["cache", "--clear"]) == 0 and not list((tmp_path / "cache" / "indexes").iterdir())


def test_a_folder_with_files_of_others_is_refused_before_anything_is_encoded(
    files, tmp_path, capsys, encoded
) -> None:
    name, corpus = files
    before = corpus.read_bytes()
    for where in (str(tmp_path), str(corpus)):
        assert cli.main(["index", name, "--corpus", str(corpus), "--to", where]) == 2
        assert "give another folder" in capsys.readouterr().err
    assert corpus.read_bytes() == before and not encoded


def test_an_index_inside_the_folder_of_its_corpus_is_no_document(tmp_path, capsys) -> None:
    corpus = tmp_path / "texts"
    corpus.mkdir()
    (corpus / "a.txt").write_text("one lamp")
    call = ["bm25", "--corpus", str(corpus)]
    assert cli.main(["index", *call, "--to", str(corpus / "inner/index")]) == 0
    (corpus / "inner/b.md").write_text("two processes on a host, and a lamp")
    capsys.readouterr()
    assert cli.main(["search", "bm25", "process lamp host", *call[1:], "--json"]) == 0
    hits = json.loads(capsys.readouterr().out)["process lamp host"]
    assert {hit["id"] for hit in hits} == {"a.txt", "inner/b.md"}


def test_a_model_alone_is_searched_with_its_recommended_preset(files, folder, tmp_path, capsys) -> None:
    base = files[0].partition("+")[0]
    other = tiny.saved("bert", tmp_path / "cls", pooling="cls")
    for model, preset in ((base, "hybrid"), (other, "windows:fusion=bm25")):
        assert cli.main(["search", str(model), QUERY, "--corpus", str(files[1])]) == 0
        assert f"searching with {model}+{preset}" in capsys.readouterr().err


def test_hits_are_those_of_the_python_call(files, capsys) -> None:
    name, corpus = files
    searcher = longembed.search(name)
    searcher.add(*zip(*read(corpus).items(), strict=True))
    want = [(hit.id, round(hit.score, 5), hit.passage) for hit in searcher.search(QUERY, k=3)]
    hits = searched([name, "--corpus", str(corpus), "-k", "3"], capsys)
    assert [(hit["id"], round(hit["score"], 5), hit["passage"]) for hit in hits] == want
    assert cli.main(["search", name, "--corpus", str(corpus), "-k", "1", QUERY]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"1. {want[0][1]:.3f}  {want[0][0]}  characters ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mini-ape", "--corpus", "CORPUS", "-k", "0", "a"], "-k must be at least 1 document, got 0"),
        (["mini-ape", "--corpus", "nowhere.jsonl", "a"], "nowhere.jsonl: expected a regular file"),
        (["nope/nope", "--corpus", "CORPUS", "a"], "cannot load 'nope/nope'"),
    ],
)
def test_wrong_arguments_and_names_are_one_sentence(files, empty_hub, arguments, message, capsys) -> None:
    assert cli.main(["search", *(str(files[1]) if word == "CORPUS" else word for word in arguments)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1].replace("mteb cannot", "cannot")
    assert f"mteb-longembed: {message}" in said


def test_a_question_without_words_is_refused_before_documents_are_encoded(files, capsys, encoded) -> None:
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY, " "]) == 2
    assert "a query must be a text with words" in capsys.readouterr().err and not encoded


@pytest.mark.parametrize(("tail", "n", "share"), [("+none", 4000, 99), ("+pcw@64", 66, 0)])
def test_more_than_a_tenth_cut_is_said(files, tail, n, share, capsys) -> None:
    base = files[0].partition("+")[0]
    write(files[1], {"a": tiny.text(n), "b": tiny.text(8)})
    assert cli.main(["search", f"{base}{tail}", "--corpus", str(files[1]), QUERY]) == 0
    assert (f"about {share} % of the text is not read" in capsys.readouterr().err) == bool(share)


def test_a_passage_is_shown_around_its_best_sentence_or_in_full(files, capsys) -> None:
    sentences = [f"{tiny.text(12, i, words=400)}." for i in range(30)]
    sentences[20] = f"{QUERY}."
    write(files[1], {"a": " ".join(sentences)})
    call = ["search", "bm25:window=400", "--corpus", str(files[1]), QUERY]
    shown = []
    for option in ([], ["--full"]):
        assert cli.main([*call, *option]) == 0
        shown.append(" ".join(capsys.readouterr().out.split()))
    assert QUERY in shown[0] and "[...]" in shown[0] and len(shown[0]) < 400
    assert " ".join(sentences[18:]) in shown[1] and "[...]" not in shown[1]


def test_the_model_chooses_the_sentence_that_is_shown_unless_no_passages_are_requested(
    files, monkeypatch, capsys
) -> None:
    sentences = [f"{tiny.text(12, i).capitalize()}." for i in range(30)]
    sentences[20] = f"{QUERY.capitalize()}."
    write(files[1], {"a": " ".join(sentences)})
    # the last sentences of a passage
    monkeypatch.setattr(VectorScorer, "text_scores", lambda self, query, texts: np.arange(len(texts)))
    name = files[0].partition("+")[0] + "+pi@1k"
    for option, is_last in (("--no-cache", True), ("--no-passages", False)):
        call = ["search", name, "--corpus", str(files[1]), QUERY, option]
        assert cli.main([*call, "--full"]) == 0
        passage = " ".join(capsys.readouterr().out.split())
        assert cli.main(call) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert len(shown) < len(passage) and (shown[-20:] == passage[-20:]) == is_last


JOINED = "\u0645\u06cc\u200c\u0631\u0648\u0645 \U0001f469\u200d\U0001f52c \u0915\u094d\u200d\u0937"


def test_nothing_in_a_document_moves_the_cursor_or_the_direction_and_joiners_stay(files, capsys) -> None:
    write(files[1], {"a": f"{QUERY} \x1b]0;title\x07 {JOINED} \u202egnp.exe\u2066"})
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY]) == 0
    output = capsys.readouterr().out
    assert JOINED in output and not {"\x1b", "\x07", "\u202e", "\u2066"} & set(output)


@pytest.mark.parametrize("encoding", ["gbk", "ascii"])
def test_output_that_is_not_utf_8_never_ends_in_a_traceback(files, encoding, monkeypatch) -> None:
    write(files[1], {"caf\xe9 \u4e2d": f"{QUERY} \u4e2d\u6587 caf\xe9 {JOINED}"})
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY]) == 0
    assert cli.main(["search", files[0], "--corpus", str(files[1]), QUERY, "--device", "\u4e2d"]) == 2
    sys.stdout.flush()
    written = sys.stdout.buffer.getvalue()  # type: ignore[attr-defined]
    assert QUERY.encode() in written
    assert ("\u4e2d".encode(encoding) if encoding == "gbk" else b"\\u4e2d") in written


@pytest.mark.parametrize("name", ["mteb/tiny", "SAVED"])
def test_every_kind_of_name_answers_several_questions(
    files, folder, name, tmp_path, empty_hub, capsys
) -> None:
    empty_hub.add("mteb/tiny", folder)
    if name == "SAVED":
        name = str(tmp_path / "saved")
        longembed.load(f"{folder}+pi@64").save_pretrained(name)
    assert cli.main(["search", name, "--corpus", str(files[1]), "--json", QUERY, "another question"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert list(answers) == [QUERY, "another question"] and all(map(len, answers.values()))


def test_what_is_not_read_or_has_no_text_is_named(files, tmp_path, capsys) -> None:
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    texts = {"a.txt": "a b", "inner/b.md": "c d", "empty.txt": " \n", "c.pdf": "%", "d.pdf": "%"}
    for file, text in texts.items():
        (folder / file).write_text(text)
    assert cli.main(["search", files[0], "--corpus", str(folder), QUERY]) == 0
    shown = capsys.readouterr()
    assert "empty.txt" not in shown.out
    assert "left out, because they have no text: 1, such as empty.txt." in shown.err
    assert "not read: 2 .pdf." in shown.err


def test_a_pipe_and_a_folder_of_tables_and_texts_are_refused(files, tmp_path, capsys) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "README.md").write_text("about")
    (tmp_path / "clone" / "data.jsonl").write_text("{}")
    for corpus, why in (("pipe", "expected a regular file"), ("clone", "must have either texts")):
        assert cli.main(["search", files[0], "--corpus", str(tmp_path / corpus), QUERY]) == 2
        assert why in capsys.readouterr().err.strip().splitlines()[-1]


def test_the_language_of_the_documents_reaches_bm25(files, capsys) -> None:
    write(files[1], {"a": "猫坐在垫子上。", "b": "钥匙在门口的花盆下面。"})
    line = ["search", "bm25", "钥匙在哪里", "--corpus", str(files[1]), "--language", "zho-Hans", "--json"]
    assert cli.main(line) == 0
    assert json.loads(capsys.readouterr().out)["钥匙在哪里"][0]["id"] == "b"


def test_a_misspelt_alias_is_refused_before_anything_large_is_imported() -> None:
    code = (
        "import sys\n"
        "from mteb_longembed import cli\n"
        "status = cli.main(['search', 'mini-apee', 'word', '--corpus', 'x'])\n"
        "print(status, sorted({'torch', 'mteb', 'sentence_transformers'} & sys.modules.keys()))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "2 []\n" and "did you mean 'mini-ape'?" in ran.stderr


# ---- options that have no effect are refused


@pytest.fixture
def indexes(files, tmp_path, capsys) -> dict[str, str]:
    """Two saved indexes: of a model, and of BM25 alone."""
    name, corpus = files
    for key, searched_name in (("model", name), ("bm25", "bm25")):
        assert cli.main(["index", searched_name, "--corpus", str(corpus), "--to", str(tmp_path / key)]) == 0
    capsys.readouterr()
    return {key: str(tmp_path / key) for key in ("model", "bm25")}


@pytest.mark.parametrize(
    ("index", "options", "message"),
    [
        ("model", ["--language", "deu"], "has its language: leave out --language"),
        ("bm25", ["--language", "nonsense"], "has its language: leave out --language"),
        ("model", ["--no-cache"], "nothing is cached: leave out --no-cache"),
        ("bm25", ["--no-cache"], "nothing is cached: leave out --no-cache"),
        ("bm25", ["--device", "cpu"], "runs no model: leave out --device"),
        ("bm25", ["--device", "nonsense"], "--device must be a device of torch, such as cpu"),
        ("bm25", ["--no-passages"], "runs no model: leave out --no-passages"),
        ("model", ["--device", "nonsense"], "--device must be a device of torch, such as cpu"),
        ("model", ["--device", "cuda:99"], "--device must be a device of torch, such as cpu"),
        ("model", ["--json", "--full"], "whole passages: leave out --full"),
    ],
)
def test_an_option_without_effect_on_an_index_is_refused(indexes, index, options, message, capsys) -> None:
    assert cli.main(["search", indexes[index], QUERY, *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bm25:window=6", ["--device", "cpu"], "runs no model: leave out --device"),
        ("bm25", ["--no-passages"], "runs no model: leave out --no-passages"),
        ("mini-ape+none", ["--device", "nonsense"], "--device must be a device of torch"),
        ("mini-ape+none", ["--language", "nonsense"], "nonsense"),
    ],
)
def test_an_option_without_effect_on_a_name_is_refused(files, name, options, message, capsys) -> None:
    for _ in range(2):
        assert cli.main(["search", name, QUERY, "--corpus", str(files[1]), *options]) == 2
        assert message in capsys.readouterr().err
