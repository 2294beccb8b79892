"""Folders that earlier versions saved open as they did, with the same vectors."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mteb_longembed as longembed
from tests import tiny

#: A tiny model with `pcw@64:size=12,vectors=4`, saved by each version, and the vectors that it gave in that version.
SAVED = Path(__file__).parent / "saved"


@pytest.mark.parametrize("version", ["0.8", "0.9"])
def test_a_folder_of_an_earlier_version_has_the_vectors_that_it_had(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(SAVED / f"of-{version}", folder)
    want = json.loads((folder / "expected.json").read_text())
    model = longembed.load(folder, device="cpu")
    texts = [tiny.text(n, n, words=400) for n in (3, 15, 50)]
    for got, rows in zip(model.encode_document(texts), want["documents"], strict=True):
        assert np.asarray(got) == pytest.approx(np.array(rows), abs=2e-6)
    assert np.ravel(model.encode_query(texts[0])) == pytest.approx(np.ravel(want["query"]), abs=2e-6)
    # and in a search
    searcher = longembed.search(str(folder), device="cpu")
    searcher.add(list("abc"), texts)
    assert searcher.search(texts[2], k=1)[0].id == "c" and searcher.n_vectors == 1 + 4 + 12
