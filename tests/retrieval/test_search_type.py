"""The first documents of a search choose its compute type; what is asked for is not measured."""

from pathlib import Path

import pytest
import torch

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.searcher import Searcher
from mteb_longembed.retrieval.windows import Windows
from tests import tiny

DOCUMENTS = {f"d{i}": f"{tiny.text(5 + 9 * i, i)}." for i in range(6)}
QUERY = tiny.text(6, 3)
TAILS = ["+pi@64", "+pcw@64:vectors=window,fuse=bm25", "+pcw@64:size=16,vectors=window,index=ivf"]


def filled(name: str, **options: object) -> Searcher:
    made = longembed.search(name, device="cpu", **options)  # type: ignore[arg-type]
    made.add(list(DOCUMENTS), list(DOCUMENTS.values()))
    return made


def scores_of(made: Searcher) -> dict[str, float]:
    return {hit.id: hit.score for hit in made.search(QUERY)}


@pytest.mark.parametrize("tail", ["", *TAILS])
def test_where_bf16_wins_the_search_is_that_of_the_name_with_it_and_one_line_says_so(
    folder: Path, tail: str, machine, caplog
) -> None:
    made = filled(f"{folder}{tail}")
    (line,) = [record.message for record in caplog.records if "bf16" in record.message]
    assert "runs in bf16: about 0 seconds, and 0 seconds in fp32; vectors agree" in line
    assert "dtype=bf16" in repr(made) and made.protocol.mteb_model_meta == made.scorer.meta
    measured = len(machine.measured)
    asked = filled(f"{folder}{tail}", dtype="bf16")
    assert repr(asked) == repr(made) and scores_of(asked) == scores_of(made)
    assert scores_of(made) != scores_of(filled(f"{folder}{tail}", dtype="fp32"))
    made.add(["new"], [QUERY])
    assert next(iter(scores_of(made))) == "new" and len(machine.measured) == measured


def test_otherwise_the_search_stays_as_its_name_says(folder: Path, machine, caplog) -> None:
    machine.products[torch.bfloat16] = 1.0
    made = filled(f"{folder}+pi@64")
    assert "dtype" not in repr(made) and not caplog.records
    assert scores_of(made) == scores_of(filled(f"{folder}+pi@64", dtype="fp32"))


def test_the_settings_of_a_search_are_kept(folder: Path, machine) -> None:
    queries = [tiny.text(8, seed) for seed in range(10)]
    options = {"passages": False, "queries": queries}
    made, asked = (filled(f"{folder}+pi@64:whiten=0.5", dtype=dtype, **options) for dtype in (None, "bf16"))
    assert "dtype=bf16" in repr(made) and made.search(QUERY) == asked.search(QUERY)
    assert all(hit.passage == DOCUMENTS[hit.id] for hit in made.search(QUERY))


def test_documents_that_cannot_be_added_change_nothing(folder: Path, machine, monkeypatch) -> None:
    made = longembed.search(f"{folder}+pi@64", device="cpu")
    before = repr(made)
    with monkeypatch.context() as patched:
        patched.setattr(Windows, "fit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.add(["a"], [QUERY])
    assert repr(made) == before
    made.add(["a"], [QUERY])
    assert "dtype=bf16" in repr(made)


def test_bm25_and_models_of_others_have_no_compute_type(machine) -> None:
    filled("bm25:window=20")
    assert machine.measured == []
    for name in ("bm25", "bm25:window=20"):
        with pytest.raises(InputError, match=f"got dtype=fp32 with '{name}': leave it out"):
            longembed.search(name, dtype="fp32")


def test_a_type_that_contradicts_the_name_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^dtype must be that of the name, bf16, got fp32: leave one"):
        longembed.search(f"{folder}+pi@64:dtype=bf16", dtype="fp32")
