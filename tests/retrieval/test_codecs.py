"""Codes of vectors equal a slow loop, and keep what a search needs."""

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.codecs import CODECS, EightBits, FourBits
from mteb_longembed.retrieval.storage import Reader
from mteb_longembed.retrieval.vectors import CorpusVectors, document_scores
from mteb_longembed.values import Precision
from tests import tiny

RNG = np.random.default_rng(5)
#: Vectors with one mean, as of a model whose cosines are all high.
ROWS = (RNG.normal(size=(400, 24)) + 3).astype(np.float32)
ROWS_OF = st.integers(1, 9).flatmap(
    lambda d: arrays.arrays(
        np.float32, st.tuples(st.integers(1, 12), st.just(d)), elements=st.floats(-4, 4, width=32)
    )
)


def slow_eight_bits(row: np.ndarray) -> list[float]:
    step = max(map(abs, row.tolist())) / 127
    return [round(number / step) * step if step else 0.0 for number in row.tolist()]


@given(rows=ROWS_OF)
@settings(max_examples=60, deadline=None)
def test_eight_bits_equal_a_loop(rows: np.ndarray) -> None:
    codec = EightBits()
    codes = codec.encode(rows)
    assert codes.dtype == np.uint8 and codes.shape == (len(rows), rows.shape[1] + 4)
    for row, got in zip(rows.astype(float), codec.decode(codes), strict=True):
        step = max(map(abs, row.tolist())) / 127
        assert got == pytest.approx(slow_eight_bits(row), abs=step * 0.51 + 1e-6)
        assert abs(got - row).max() <= step * 0.501 + 1e-6


@pytest.mark.parametrize("d", [24, 7])
def test_four_bits_equal_a_loop(d: int) -> None:
    rows = ROWS[:, :d]
    codec = FourBits()
    assert not codec.is_fitted
    codec.fit(rows)
    codes = codec.encode(rows[:20])
    assert codec.is_fitted and codes.shape == (20, math.ceil(d / 2) + 4)
    state = codec.state()
    mean = rows.astype(float).mean(axis=0)
    assert state["mean"] == pytest.approx(mean, abs=1e-5)
    rotation = state["rotation"].astype(float)
    assert rotation @ rotation.T == pytest.approx(np.eye(d), abs=1e-5)
    decoded = codec.turn_back(codec.decode(codes))
    for row, got in zip(rows[:20].astype(float), decoded, strict=True):
        rest = row - mean
        distance = math.sqrt(sum(rest**2))
        direction = rotation @ rest / distance
        read = []
        for number in direction:
            bucket = sum(bool(number >= border) for border in state["borders"])
            read.append(state["levels"][bucket])
        unit = np.array(read, float) / math.sqrt(sum(np.array(read, float) ** 2))
        assert got == pytest.approx(mean + distance * (rotation.T @ unit), abs=1e-4)


def test_buckets_have_equal_shares_and_are_read_as_their_means() -> None:
    codec = FourBits()
    codec.fit(ROWS)
    state = codec.state()
    directions = ROWS - ROWS.mean(axis=0)
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True) @ state["rotation"].T
    buckets = np.digitize(directions.ravel(), state["borders"])
    shares = np.bincount(buckets, minlength=16) / buckets.size
    assert shares == pytest.approx(1 / 16, abs=0.01)
    means = [directions.ravel()[buckets == number].mean() for number in range(16)]
    assert state["levels"] == pytest.approx(means, abs=0.01)


@pytest.mark.parametrize("precision", get_args(Precision))
def test_products_with_turned_queries_are_products_with_the_vectors(precision: Precision) -> None:
    codec = CODECS[precision]()
    codec.fit(ROWS)
    queries = RNG.normal(size=(3, 24)).astype(np.float32)
    decoded = codec.decode(codec.encode(ROWS))
    plain = codec.turn_back(decoded)
    assert codec.turn(queries) @ decoded.T == pytest.approx(queries @ plain.T, abs=1e-3)
    error = {"fp32": 0, "int8": 0.01, "4bit": 0.15}[precision]
    assert (
        np.linalg.norm(plain - ROWS, axis=1).max()
        <= error * np.linalg.norm(ROWS - ROWS.mean(axis=0), axis=1).max() * 3
    )
    other = CODECS[precision]().restore(codec.state())
    assert (other.decode(codec.encode(ROWS)) == decoded).all() and other.is_fitted


@pytest.mark.parametrize("precision", get_args(Precision))
def test_stored_vectors_keep_their_codes_when_documents_are_added_and_left_out(precision: Precision) -> None:
    documents = [ROWS[5 * n : 5 * n + n % 3 + 1] for n in range(30)]
    made = CorpusVectors(precision)
    made.append(documents[:20])
    first = [made.document(index) for index in range(20)]
    made.append(documents[20:])
    kept = np.arange(30) % 4 != 1
    want = [made.document(index) for index in np.flatnonzero(kept)]
    assert all((made.document(index) == first[index]).all() for index in range(20))
    queries = RNG.normal(size=(2, 24)).astype(np.float32)
    before = document_scores(made, queries)[:, kept]
    made.keep(kept)
    assert all((made.document(index) == rows).all() for index, rows in enumerate(want))
    assert document_scores(made, queries) == pytest.approx(before, abs=1e-5)
    slow = [[max(row @ query for row in rows) for rows in want] for query in queries]
    assert document_scores(made, queries) == pytest.approx(np.array(slow), abs=1e-3)
    assert made.n_bytes == made.n_vectors * {"fp32": 96, "int8": 28, "4bit": 16}[precision]


def test_query_tokens_are_stored_in_eight_bits_and_others_exactly_unless_asked(
    folder: Path, tmp_path: Path
) -> None:
    texts = {f"d{i}": f"{tiny.text(5 + 9 * i, i)}." for i in range(12)}
    late, windows = "+pcw@64:vectors=4,query=tokens", "+pcw@64:vectors=window"
    scores = {}
    for tail, precision, stored in (
        (late, None, "int8"),
        (late, "fp32", "fp32"),
        (late, "4bit", "4bit"),
        (windows, None, "fp32"),
        (windows, "int8", "int8"),
    ):
        made = longembed.search(f"{folder}{tail}", device="cpu", precision=precision)
        made.add(texts, texts.values())
        assert made.index.shown.stored.rows.precision == stored
        name = str(tmp_path / f"{len(scores)}")
        made.save(name)
        opened = longembed.open_index(name, device="cpu")
        assert opened.index.shown.stored.rows.precision == stored
        query = [tiny.text(6, 3)]
        assert opened.scorer.scores(query).tolist() == made.scorer.scores(query).tolist()
        scores[tail, precision] = opened.scorer.scores(query)
    assert scores[late, None] == pytest.approx(scores[late, "fp32"], abs=0.01)
    assert scores[late, "4bit"] == pytest.approx(scores[late, "fp32"], abs=0.1)


@pytest.mark.parametrize(("precision", "stored"), [(None, "uint8"), ("fp32", "float32"), ("4bit", "uint8")])
def test_a_hybrid_stores_the_vectors_of_terms_in_eight_bits_unless_its_vectors_are_exact(
    precision: Precision | None, stored: str, folder: Path, tmp_path: Path
) -> None:
    made = longembed.search(f"{folder}+hybrid@64:vectors=4", device="cpu", precision=precision)
    made.add(["a", "b"], [tiny.text(30, 1), tiny.text(40, 2)])
    made.save(tmp_path / "index")
    assert Reader(tmp_path / "index").arrays("expansion")["vectors"].dtype == stored


def test_a_precision_without_effect_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"precision must be one of fp32, int8, 4bit, got '2bit'"):
        longembed.search(f"{folder}+pi@64", device="cpu", precision="2bit")
    with pytest.raises(
        InputError, match=r"a precision is one of dense vectors, got int8 with .*: leave it out"
    ):
        longembed.search("bm25:window=6", precision="int8")


def test_sparse_vectors_have_no_precision(tmp_path: Path) -> None:
    tiny.sparse("bert", tmp_path)
    with pytest.raises(
        IncompatibleError, match="a precision is one of dense vectors, got 4bit with a sparse model"
    ):
        longembed.search(f"{tmp_path / 'sparse'}+none", device="cpu", precision="4bit")
