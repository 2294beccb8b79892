"""Small faults that people met: names, options and look-ups that were silently wrong or asked the hub."""

import gzip
import sys
import warnings
from pathlib import Path
from typing import Any

import mteb
import pytest
from mteb.models.model_meta import ModelMeta
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.data.check import read_texts
from mteb_longembed.data.table import ignored_files
from mteb_longembed.errors import DataError, InputError
from mteb_longembed.presets import LEXICAL, PRESETS
from mteb_longembed.tasks.benchmark import make_benchmarks
from mteb_longembed.tasks.registry import TASKS
from tests import tiny


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests to the hub, each of which fails."""
    asked: list[str] = []

    def refuse(*args: Any, **_: Any) -> None:
        asked.append(str(args[1:]))
        raise ConnectionError("the hub was asked")

    for client in ("httpx", "httpx2"):
        if client in sys.modules:
            monkeypatch.setattr(f"{client}.Client.send", refuse)
    return asked


# ---- data


@pytest.mark.parametrize("name", ["b.txt.gz", "b.MD.GZ", "below/b.txt.gz"])
def test_texts_of_a_folder_may_be_compressed(tmp_path: Path, name: str) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.txt").write_text("one\r\ntwo", newline="")
    (tmp_path / name).write_bytes(gzip.compress("Größe".encode("utf-8-sig")))
    assert dict(read_texts(tmp_path)) == {"a.txt": "one\r\ntwo", name: "Größe"}
    assert ignored_files(tmp_path) == {}
    (tmp_path / name).write_bytes(gzip.compress(b"a text that is cut off")[:-9])
    with pytest.raises(DataError, match="the gzip file is cut off or damaged"):
        dict(read_texts(tmp_path))


# ---- names


@pytest.mark.parametrize("key", [*PRESETS, "pcw", "ntk", LEXICAL])
@pytest.mark.parametrize("tail", ["@", "@ ", "@:vectors=8"])
def test_an_at_without_a_target_is_refused(key: str, tail: str) -> None:
    with pytest.raises(InputError, match="a target must follow @, such as @4k, got 'mini-ape"):
        longembed.search(f"mini-ape+{key}{tail}")


@pytest.mark.parametrize("name", [*PRESETS, LEXICAL])
def test_a_preset_without_a_model_is_refused_and_the_hub_not_asked(name: str, no_hub) -> None:
    for door in (longembed.load, longembed.search, longembed.extend):
        with pytest.raises(InputError, match=f"{name} is a preset, which needs a model, such as mini-rope"):
            door(name)
    assert not no_hub


@pytest.mark.parametrize(
    ("setting", "successor"),
    [
        ("fuse=words", "fusion=bm25"),
        ("trust=0.5", "lexical_weight="),
        ("neighbours=mini-ape", r"MODEL\+lexical"),
        ("expand=mini-ape", r"MODEL\+lexical"),
    ],
)
def test_a_setting_of_an_older_version_names_its_successor(setting: str, successor: str) -> None:
    for door in (longembed.search, longembed.load, mteb.get_model_meta):
        with pytest.raises(InputError, match=f"of an older version is {successor} now"):
            door(f"mini-ape+pi@1k:{setting}")


# ---- mteb


def test_mteb_looks_up_several_names_without_the_hub(no_hub) -> None:
    names = ["intfloat/e5-base-v2", "mteb-longembed/mini-ape"]
    found = mteb.get_model_metas(model_names=[names[0], "mini-ape+ntk", names[1] + "+pi"])
    assert [str(meta.name) for meta in found] == names[:1]  # mteb keeps only what has the very name
    for names in (["org/unknown"], ["intfloat/e5-base-v2", "org/unknown"]):
        with pytest.raises(KeyError):
            mteb.get_model_metas(model_names=names)
    assert not no_hub


def test_warnings_of_mteb_about_other_models_are_heard(tmp_path: Path, monkeypatch) -> None:
    theirs = SentenceTransformer(str(tiny.saved("bert", tmp_path)), device="cpu")
    module: Any = sys.modules["mteb.models.model_meta"]
    create = ModelMeta.create_empty.__func__  # type: ignore[attr-defined]

    def warning(cls: type[ModelMeta], *args: Any, **kwargs: Any) -> ModelMeta:
        warnings.warn("mteb says so", stacklevel=1)
        return create(cls, *args, **kwargs)

    monkeypatch.setattr(module.ModelMeta, "create_empty", classmethod(warning))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ModelMeta.from_sentence_transformer_model(theirs)
    assert "mteb says so" in [str(one.message) for one in heard]


def test_citations_have_the_format_of_mteb() -> None:
    """Each field is one line, indented by two spaces; lines of mteb's own citations begin at the margin."""
    benchmarks = make_benchmarks()
    citations = [task.metadata.bibtex_citation for task in TASKS] + [one.citation for one in benchmarks]
    assert len(citations) >= 14
    theirs = mteb.get_task("LEMBPasskeyRetrieval").metadata.bibtex_citation
    for citation in citations:
        assert str(citation).endswith(str(theirs))


@pytest.mark.parametrize("name", ["mini-ape", "mini-rope"])
def test_our_models_tell_the_parameters_of_their_embeddings(name: str) -> None:
    model = longembed.load(name, device="cpu")
    weights = dict(model.named_parameters())
    (words,) = [
        value
        for key, value in weights.items()
        if "word_embeddings" in key or "embed_tokens" in key or "tok_embeddings" in key
    ]
    assert mteb.get_model_meta(name).n_embedding_parameters == words.numel()


# ---- searches


def test_all_stored_vectors_are_counted(tmp_path: Path, folder: Path) -> None:
    name = f"{folder}+pcw@64:size=16,vectors=window,weights=idf,whiten=0.5,fusion=bm25"
    searcher = longembed.search(name, device="cpu")
    searcher.add(["a", "b"], [tiny.text(9, 1), tiny.text(9, 2)])
    assert searcher.n_vectors == 4  # two representations of two windows
    searcher.save(tmp_path / "index")
    assert longembed.open_index(tmp_path / "index", device="cpu").n_vectors == 4
