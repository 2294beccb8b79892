"""`mteb-longembed search`: documents are encoded once, the scores are those of the Python call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mteb_longembed as longembed
from mteb_longembed import cli
from mteb_longembed.encoders.modules import LongTransformer
from tests import tiny

QUERY = tiny.text(6, 3)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A model's name and a file of documents. Nothing outside of `tmp_path` is written."""
    tiny.sentence_transformer("bert", tmp_path / "base")
    corpus = tmp_path / "docs.jsonl"
    write(corpus, {f"d{i}": tiny.text(8 + 9 * i, i) for i in range(6)})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0")
    return f"{tmp_path / 'base' / 'model'}+pcw@64:size=16,vectors=window", corpus


def write(path: Path, documents: dict[str, str]) -> None:
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents.items()))


def read(path: Path) -> dict[str, str]:
    rows = map(json.loads, path.read_text().splitlines())
    return {row["id"]: row["text"] for row in rows}


def asked(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["search", *arguments, QUERY, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [QUERY]
    return list(found[QUERY])


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are tokenised."""
    texts: list[str] = []
    token_ids = LongTransformer.token_ids

    def noting(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        texts.extend(inputs)
        return token_ids(self, inputs, *args, **kwargs)

    monkeypatch.setattr(LongTransformer, "token_ids", noting)
    return texts


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
    found = asked([name, "--corpus", str(corpus), "-k", "3"], capsys)
    assert [(hit["id"], round(hit["score"], 5), hit["passage"]) for hit in found] == want
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
    found = asked([name, "--corpus", str(corpus), "-k", "9", *index], capsys)
    assert {hit["id"] for hit in found} == set(documents) and found[0]["id"] == "d1"
    assert not {documents["d0"], documents["d2"]} & set(encoded)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["-k", "0"], "-k must be at least 1 document, got 0"),
        (["--corpus", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_wrong_arguments_are_one_sentence(files, change, told, capsys) -> None:
    name, corpus = files
    assert cli.main(["search", name, "--corpus", str(corpus), *change, QUERY]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("mteb-longembed: ") and told in line


def test_an_index_of_another_model_is_refused(files, tmp_path, capsys) -> None:
    name, corpus = files
    index = ["--index", str(tmp_path / "index")]
    asked([name, "--corpus", str(corpus), *index], capsys)
    assert cli.main(["search", name.replace("@64", "@48"), "--corpus", str(corpus), *index, QUERY]) == 2
    assert "give another --index" in capsys.readouterr().err
