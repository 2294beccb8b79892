"""What provably equals the base does not run."""

import numpy as np
import pytest

import mteb_longembed
from mteb_longembed.comparing.bases import longest_input
from mteb_longembed.comparing.candidates import candidates_of, named, of_base
from mteb_longembed.comparing.costs import Lengths
from mteb_longembed.comparing.equal import equals_base, without_equals
from mteb_longembed.data.task import files_task
from tests import tiny


@pytest.mark.parametrize(
    "tail", ["gp@64", "rp@64", "pi@64", "pcw@64", "pcw@64:vectors=window", "pcw@64:size=8"]
)
def test_a_candidate_equals_its_base_exactly_where_their_vectors_do(base, tail) -> None:
    texts = [tiny.text(n, n) for n in (3, 6, 9, 14)]
    plain = mteb_longembed.load(f"{base}+none").encode_document(texts)
    rows = mteb_longembed.load(f"{base}+{tail}").encode_document(texts)
    same = [
        np.allclose(np.atleast_2d(np.asarray(one)), own, atol=1e-6)
        for one, own in zip(rows, plain, strict=True)
    ]
    for text, is_same in zip(texts, same, strict=True):
        n = len(mteb_longembed.load(f"{base}+none").tokenizer(text)["input_ids"])
        assert not equals_base(named(f"{base}+{tail}"), n) or is_same
    assert equals_base(named(f"{base}+{tail}"), 5)
    assert not equals_base(named(f"{base}+{tail}"), 17)  # the trained length is 16


def test_search_settings_and_a_sample_of_documents_are_never_equal(base) -> None:
    assert not equals_base(named(f"{base}+pcw@64:vectors=window,whiten=0.5"), 5)
    assert not equals_base(named(f"{base}+none"), 5)
    assert longest_input(of_base(base)[1], Lengths(np.array([5]), 2.0), tiny.tokenizer(), []) is None
    found, _ = candidates_of(base)
    assert without_equals(found, None) == (found, [])


def test_a_comparison_leaves_it_out_and_says_so(base, tmp_path) -> None:
    texts = {f"d{i}": tiny.text(5, i) for i in range(9)}
    queries = {f"q{i}": text for i, text in enumerate(texts.values())}
    task = files_task(texts, queries, {f"q{i}": {f"d{i}": 1} for i in range(9)})
    said: list[str] = []
    quiet = {"show": False, "on_message": said.append, "output_folder": tmp_path}
    found = mteb_longembed.compare(base, tasks=[task], **quiet)
    assert not [row for row in found.rows if row.kind == "strategy"]
    assert any("equals the base on these documents" in text for text in said)
    forced = mteb_longembed.compare(base, tasks=[task], strategies=["gp"], **quiet)
    assert [row.kind for row in forced.rows if row.kind == "strategy"] == ["strategy"]
