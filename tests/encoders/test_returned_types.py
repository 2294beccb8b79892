"""`extend` and `load` return the class that type checkers see. mypy checks this file too (pyproject.toml)."""

from pathlib import Path
from typing import assert_type

from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder

import mteb_longembed
from mteb_longembed.encoders.model import (
    LongModel,
    LongMultiVectorEncoder,
    LongSentenceTransformer,
    LongSparseEncoder,
)
from tests import tiny


def test_a_dense_base_gives_one_vector_or_with_vectors_several(base: SentenceTransformer) -> None:
    one = mteb_longembed.extend(base, "pi", 64)
    several = mteb_longembed.extend(base, "pi", 64, vectors=8)
    of_windows = mteb_longembed.extend(base, "pcw", 64, vectors="window")
    assert_type(one, LongSentenceTransformer)
    assert_type(several, LongMultiVectorEncoder)
    assert_type(of_windows, LongMultiVectorEncoder)
    assert type(one) is LongSentenceTransformer
    assert type(several) is type(of_windows) is LongMultiVectorEncoder


def test_models_with_late_interaction_and_sparse_ones_keep_their_class(tmp_path: Path) -> None:
    late: MultiVectorEncoder = tiny.late("bert", tmp_path / "late")
    sparse: SparseEncoder = tiny.sparse("bert", tmp_path / "sparse")
    of_tokens = mteb_longembed.extend(late, "pcw", 64, 16)
    of_windows = mteb_longembed.extend(sparse, "pcw", 64, 16, vectors="window")
    assert_type(of_tokens, LongMultiVectorEncoder)
    assert_type(of_windows, LongSparseEncoder)
    assert type(of_tokens) is LongMultiVectorEncoder
    assert type(of_windows) is LongSparseEncoder


def test_a_name_gives_one_of_the_three_and_with_a_number_of_vectors_several() -> None:
    some = mteb_longembed.load("mini-ape+pi@1k")
    several = mteb_longembed.load("mini-ape+pi@1k", vectors=64)
    extended = mteb_longembed.extend("mini-ape", "pi", 1024)
    of_spans = mteb_longembed.extend("mini-ape", "pi", 1024, vectors=64)
    assert_type(some, LongModel)
    assert_type(several, LongMultiVectorEncoder)
    assert_type(extended, LongModel)
    assert_type(of_spans, LongMultiVectorEncoder)
    assert type(some) is type(extended) is LongSentenceTransformer
    assert type(several) is type(of_spans) is LongMultiVectorEncoder
