"""Sums over the parts of a corpus, added up, fit the model that the whole corpus fits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.adapt import pieces
from mteb_longembed.encoders.head import Head
from mteb_longembed.encoders.weights import TokenCounts, count_tokens
from mteb_longembed.encoders.whitening import Moments
from mteb_longembed.errors import InputError
from tests import tiny

CORPUS = [tiny.text(10 + 7 * n, n) for n in range(30)]
QUERIES = [tiny.text(5, 900 + n) for n in range(7)]
#: What three machines read.
PARTS = [CORPUS[:9], CORPUS[9:10], CORPUS[10:]]


@pytest.mark.parametrize("tail", ["", "+pcw@256", "+pi@256"])
def test_three_machines_fit_the_model_of_one(folder: Path, tail: str, tmp_path: Path) -> None:
    base: Any = longembed.load(f"{folder}{tail}", device="cpu")
    one: Any = tiny.adapted(base, CORPUS)

    counts = [count_tokens(base, part) for part in PARTS]
    weighted: Any = tiny.adapted(base, counts[0] + counts[1] + counts[2], whiten=0)
    weighted.save_pretrained(str(tmp_path / "weighted"))  # it travels to each machine
    there: Any = longembed.load(tmp_path / "weighted", device="cpu")
    moments = [Moments.of(pieces(there, part)) for part in PARTS]
    three: Any = tiny.adapted(weighted, moments[0] + moments[1] + moments[2], weights=None)

    # directions of nearly equal variance may turn, and no score changes
    scores = [
        np.asarray(m.similarity(m.encode_query(QUERIES), m.encode_document(CORPUS))) for m in (one, three)
    ]
    assert np.abs(scores[0] - scores[1]).max() < 1e-5
    weights = [Head.of(model).weights.emb_layer.weight.detach().numpy() for model in (one, three)]  # type: ignore[union-attr]
    assert np.array_equal(*weights)


def test_sums_that_do_not_fit_are_refused(folder: Path) -> None:
    model: Any = longembed.load(f"{folder}+none", device="cpu")
    counts = count_tokens(model, CORPUS)
    moments = Moments.of(pieces(model, CORPUS))
    narrow = Moments.of(np.eye(5, dtype=np.float32))
    few = TokenCounts.of([np.array([1, 2])], vocabulary=7)
    with pytest.raises(InputError, match=r"weights and no map, got whiten=0\.5: add whiten=0"):
        longembed.adapt(model, counts)
    with pytest.raises(InputError, match=r"map and no weights, got weights='idf': add weights=None"):
        longembed.adapt(model, moments)
    with pytest.raises(InputError, match=r"which has 32 dimensions, got 5"):
        longembed.adapt(model, narrow, weights=None)
    with pytest.raises(InputError, match=r"counts must be of this model, which has \d+ tokens, got 7"):
        longembed.adapt(model, few, whiten=0)
    stock: Any = longembed.adapt(str(folder), counts, whiten=0, device="cpu")
    with pytest.raises(InputError, match=r"needs? a model of this package.* fit the weights on load"):
        longembed.adapt(stock, moments, weights=None)
