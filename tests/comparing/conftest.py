from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mteb_longembed
from mteb_longembed.comparing import run
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.data.task import files_task
from tests import tiny
from tests.own_data import beir


def compare(candidates: Sequence[Candidate], task: Any, out: Path, **options: Any) -> Comparison:
    """Compare on one task, without fusion and without a word, unless the options say more."""
    quiet = {"bm25": False, "show": False, "on_message": lambda text: None}
    return mteb_longembed.compare(candidates, tasks=[task], output_folder=out, **{**quiet, **options})


@pytest.fixture(autouse=True)
def one_speed(bases_loaded_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is measured: `test_costs.py` does that, and the command line with a real one."""
    monkeypatch.setattr(run, "measure", lambda model, texts: (1000.0, 128))


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> str:
    return str(tiny.saved("bert", tmp_path_factory.mktemp("base")))


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Twelve documents of 40 tokens; each query is the first or the last words of one."""
    folder = tmp_path_factory.mktemp("data")
    texts = [tiny.text(40, seed) for seed in range(12)]
    queries = [" ".join(text.split()[:6] if i % 2 else text.split()[-6:]) for i, text in enumerate(texts)]
    return beir(folder, texts, queries)


@pytest.fixture
def task(data: Path) -> Any:
    return files_task(data / "corpus.jsonl", data / "queries.jsonl", data / "qrels/test.tsv")


@pytest.fixture(scope="session")
def files(data: Path) -> list[str]:
    """The options of the command for these data."""
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels/test.tsv"}
    return [word for option, name in names.items() for word in (f"--{option}", str(data / name))]
