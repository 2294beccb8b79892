"""The rows of documents for a vector database: each vector beside its text."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError, InputError
from tests import tiny

DOCUMENTS = {"long": tiny.text(70), "short": tiny.text(5, 1), "empty": ""}


@pytest.mark.parametrize(("key", "vectors"), [("pcw", "window"), ("pi", 7), ("pi", None)])
def test_a_row_has_a_vector_of_the_model_and_the_text_of_its_tokens(base, key, vectors):
    model = longembed.extend(base, key, vectors=vectors)
    rows = longembed.encode_windows(model, DOCUMENTS)
    for name, text in DOCUMENTS.items():
        own = [row for row in rows if row.document == name]
        want = np.atleast_2d(model.encode_document([text])[0])
        assert len(own) == len(want)
        assert np.abs(np.stack([row.vector for row in own]) - want).max() < 1e-6
        assert all(row.text == text[row.start : row.end] for row in own)
        # nothing is left out: each row begins where, or before, the last one has ended
        assert own[0].start == 0 and own[-1].end == len(text)
        assert all(after.start <= before.end + 1 for before, after in pairwise(own))
    assert {row.vector.dtype for row in rows} == {np.dtype("float32")}
    assert (len(rows) > len(DOCUMENTS)) == (vectors is not None)


def test_no_documents_have_no_rows(base):
    assert longembed.encode_windows(longembed.extend(base, "pi"), {}) == []


def test_what_has_no_rows_is_refused(base: SentenceTransformer, tmp_path: Path):
    with pytest.raises(InputError, match="what extend, load or adapt returned, got a SentenceTransformer"):
        longembed.encode_windows(base, {"a": "b"})
    late = longembed.extend(tiny.late("bert", tmp_path), "pcw")
    with pytest.raises(IncompatibleError, match="needs a dense base, got a late-interaction one"):
        longembed.encode_windows(late, {"a": "b"})
