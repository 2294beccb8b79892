"""A head is one value, and a map is fitted on what the model reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers.sentence_transformer.modules import Normalize
from sklearn.covariance import ledoit_wolf

import mteb_longembed as longembed
from mteb_longembed.encoders.adapt import pieces
from mteb_longembed.encoders.head import Head
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.whitening import Whitening
from mteb_longembed.errors import IncompatibleError
from tests import tiny

TEXTS = [tiny.text(n, n) for n in (6, 12, 40, 90)]
CORPUS = [tiny.text(20 + 3 * n, 100 + n) for n in range(30)]


# ---- one value, one set of pieces --------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["+none", "+pcw@128", "+pcw@128:size=12", "+pi@128"])
def test_a_head_that_is_read_from_modules_writes_the_same_model(folder: Path, tail: str) -> None:
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    again: Any = with_head(model, model.head)
    assert again.trunk is model.trunk
    assert np.array_equal(again.encode_document(TEXTS), model.encode_document(TEXTS))


def test_pieces_are_the_windows_that_the_model_cuts_and_text_that_it_reads(folder: Path) -> None:
    long = [tiny.text(100, 5), tiny.text(7, 6)]
    counts = {"+none": 2, "+pi@64": 2, "+pcw@64:size=12": 0}
    strategy = longembed.load(f"{folder}+pcw@64:size=12", device="cpu").trunk.strategy  # type: ignore[attr-defined]
    counts["+pcw@64:size=12"] = len(strategy.windows(64, 3, 1)) + 1
    for tail, n in counts.items():
        model: Any = longembed.load(f"{folder}{tail}", device="cpu")
        assert len(pieces(model, long)) == n, tail


def test_weights_need_a_mean_of_tokens(tmp_path: Path) -> None:
    model: Any = longembed.load(f"{tiny.saved('bert', tmp_path, pooling='cls')}+pi@64", device="cpu")
    with pytest.raises(IncompatibleError, match=r"^weights averages the tokens .* trained with cls pooling"):
        model.head.weighted(None)


# ---- whitening ---------------------------------------------------------------------------------------------


def test_the_map_is_that_of_scikit_learns_covariance_and_its_signs_are_fixed() -> None:
    rng = np.random.default_rng(1)
    for n, shift in ((30, 0.0), (60, 5.0)):
        rows = rng.standard_normal((n, 12)) @ rng.standard_normal((12, 12)) + shift
        covariance, shrinkage = ledoit_wolf(rows)
        assert shrinkage > 0.01  # ours is at least that
        found = Whitening.fit(rows, 1.0)
        # of power 1, the map makes the shrunk covariance a sphere
        sphere = found.matrix.T @ (covariance / np.trace(covariance) * 12) @ found.matrix
        assert np.allclose(sphere, np.eye(12), atol=1e-3) and np.allclose(found.mean, rows.mean(0), atol=1e-5)
        largest = found.matrix[np.abs(found.matrix).argmax(0), np.arange(12)]
        assert (largest > 0).all()


def test_dimensions_stand_by_falling_variance() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((500, 8)) * np.array([1, 9, 2, 8, 3, 7, 4, 6])
    mapped = (rows - rows.mean(0)) @ Whitening.fit(rows, 0.5).matrix
    variances = mapped.var(0)
    assert (np.diff(variances) <= 0).all() and variances[0] > 2 * variances[-1]


@pytest.mark.parametrize("dense", [False, True])
def test_adapted_stock_modules_read_back_as_one_head(tmp_path: Path, dense: bool) -> None:
    folder = tiny.saved("bert", tmp_path, dense=dense, prompts=tiny.PROMPTS)
    model: Any = tiny.adapted(str(folder), CORPUS)
    head = Head.of(model)
    assert head.weights is not None and head.mode == "mean"
    assert isinstance(head.behind[-1], Normalize)
