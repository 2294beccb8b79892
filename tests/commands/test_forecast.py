"""`search` and `index` say what they are about to do before they do it."""

import logging
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

import mteb_longembed as longembed
from mteb_longembed import cli
from mteb_longembed.commands import forecast
from mteb_longembed.data.look import survey
from tests import tiny
from tests.commands.test_search import write

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty documents of 40 to 230 words, and an embedding cache without a row."""
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "docs.jsonl", {f"d{i}": tiny.text(40 + 10 * i, i) for i in range(20)})
    return tmp_path / "docs.jsonl"


def test_the_first_line_has_documents_tokens_and_the_size_of_the_index(corpus, folder, tmp_path, capsys):
    call = ["index", f"{folder}+windows", "--corpus", str(corpus), "--to", str(tmp_path / "index")]
    assert cli.main(call) == 0
    said = capsys.readouterr().err
    assert re.search(r"20 documents, about [\d,]+ tokens; an index of about [\d.]+ [KM]B", said)


@pytest.mark.parametrize("tail", ["+windows", "+hybrid", "+none", "+late"])
def test_the_expected_size_is_near_what_is_stored(corpus, folder, tmp_path, tail) -> None:
    searcher = longembed.search(f"{folder}{tail}")
    expected = forecast.forecast(searcher, corpus, survey(corpus)).n_bytes
    searcher.read(corpus)
    searcher.save(tmp_path / "index")
    stored = sum(path.stat().st_size for path in (tmp_path / "index").rglob("*.data"))
    assert 0.6 * stored <= expected <= 1.7 * stored


def test_what_the_embedding_cache_has_is_not_announced_as_work(corpus, folder, tmp_path, capsys) -> None:
    call = ["search", f"{folder}+windows", "word", "--corpus", str(corpus), "--no-cache"]
    assert cli.main(call) == 0
    assert "from the embedding cache" not in capsys.readouterr().err
    write(tmp_path / "more.jsonl", {f"d{i}": tiny.text(40 + 10 * i, i) for i in range(10, 30)})
    assert cli.main([*call[:4], str(tmp_path / "more.jsonl"), "--no-cache"]) == 0
    share = float(re.search(r"(\d+) % of them from the embedding cache", capsys.readouterr().err)[1])
    read = sum(40 + 10 * i for i in range(10, 20))
    assert share == pytest.approx(100 * read / (read + sum(40 + 10 * i for i in range(20, 30))), abs=2)


def test_a_disk_without_room_is_refused_before_anything_is_encoded(
    corpus, folder, tmp_path, capsys, encoded, monkeypatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**6, 10**6, 1000))
    call = ["index", f"{folder}+windows", "--corpus", str(corpus), "--to", str(tmp_path / "new/index")]
    assert cli.main(call) == 2
    assert re.search(
        r"the index needs about .* [KM]B, and the disk of .* has 1 KB free", capsys.readouterr().err
    )
    assert not (tmp_path / "new").exists()


def test_the_time_is_that_of_the_tokens_that_are_left_at_the_measured_speed(monkeypatch) -> None:
    made = forecast.Forecast(2, 1000, 600, 120.0, 3 << 20, 1 << 20)
    assert made.sentence == (
        "2 documents, about 1,000 tokens, 40 % of them from the embedding cache, about 2 minutes; an index of about "
        "3.0 MB (1.0 MB of text)."
    )


def test_a_model_alone_means_its_recommended_preset_in_python_too(folder, corpus, caplog) -> None:
    assert longembed.search(str(folder)).name == f"{folder}+hybrid"
    plain = longembed.search(f"{folder}+none")
    with caplog.at_level(logging.WARNING, "mteb_longembed"):
        plain.read(corpus)
    (message,) = (record.message for record in caplog.records if "not read" in record.message)
    assert re.fullmatch(r"about \d+ % of the text is not read; a name with \+pcw@LENGTH .*", message)
