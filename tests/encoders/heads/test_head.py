"""A head is one value: a new way to group tokens and a new fitted map are one class and one line each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import mteb
import numpy as np
import pytest
import torch
from mteb_longembed.encoders.heads.transforms import TRANSFORMS
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import Tensor, nn

import mteb_longembed as longembed
from mteb_longembed.encoders.adapt import pieces
from mteb_longembed.encoders.head import Head
from mteb_longembed.encoders.model import with_head
from mteb_longembed.encoders.store import EmbeddingStore
from mteb_longembed.encoders.vectors import GROUPINGS, TokenBatch, content
from mteb_longembed.encoders.whitening import Moments, Whitening, unit
from mteb_longembed.errors import IncompatibleError
from tests import tiny

TEXTS = [tiny.text(n, n) for n in (6, 12, 40, 90)]
CORPUS = [tiny.text(20 + 3 * n, 100 + n) for n in range(30)]


# ---- a new way to group ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Halves:
    """The first half of a document's tokens, and the second."""

    averages: ClassVar[bool] = True

    def tokens(self, batch: TokenBatch, number: int) -> list[Tensor]:
        start, end = content(batch.bounds[number])
        middle = (start + end) // 2
        return [torch.arange(start, middle), torch.arange(middle, end)] if end - start > 1 else []


@pytest.fixture
def halves() -> Iterator[None]:
    GROUPINGS["halves"] = Halves  # the one line
    yield
    del GROUPINGS["halves"]


@pytest.mark.parametrize("strategy", ["pi", "pcw"])
def test_a_new_grouping_works_by_name_saved_and_in_the_store(folder, halves, tmp_path, strategy) -> None:
    name = f"{folder}+{strategy}@128:vectors=halves"
    model: Any = longembed.load(name, device="cpu")
    assert model.model_card_data.model_name == f"local/model+{strategy}@128,vectors=halves"
    single: Any = longembed.load(f"{folder}+{strategy}@128", device="cpu")
    prompt = model.prompts["document"]
    for text, got in zip(TEXTS, model.encode_document(TEXTS), strict=True):
        tokens = torch.as_tensor(single.encode(text, prompt=prompt, output_value="token_embeddings"))
        (own,) = single.trunk.content_of(single.trunk.token_ids([text], prompt), prompt)
        start = len(tokens) - 1 - len(own)
        middle = (start + len(tokens) - 1) // 2
        want = torch.stack([tokens[start:middle].mean(0), tokens[middle:-1].mean(0)])
        want = torch.nn.functional.normalize(want, dim=1)
        assert np.abs(np.asarray(got) - want.numpy()).max() < 1e-5
    model.save_pretrained(str(tmp_path / "saved"))
    saved: Any = longembed.load(tmp_path / "saved", device="cpu")
    model.store = EmbeddingStore(tmp_path / "store")
    first = model.encode_document(TEXTS)
    encoded = model.store.counts.tokens_encoded
    again = model.encode_document(TEXTS)
    assert model.store.counts.tokens_encoded == encoded > 0
    for one, two, three in zip(first, again, saved.encode_document(TEXTS), strict=True):
        assert np.array_equal(one, two) and np.abs(np.asarray(one) - np.asarray(three)).max() < 1e-6
    assert mteb.get_model_meta(name).name == model.model_card_data.model_name


# ---- a new fitted map --------------------------------------------------------------------------------------


class Centring:
    """The map `x - setting * mean`."""

    def __init__(self, shift: np.ndarray) -> None:
        self.shift = shift

    @classmethod
    def read(cls, value: object) -> float:
        return float(value)  # type: ignore[arg-type]

    @classmethod
    def fit(cls, vectors: np.ndarray, setting: float, queries: np.ndarray | None = None) -> "Centring":
        return cls(setting * vectors.mean(0))

    def documents(self, rows: np.ndarray) -> np.ndarray:
        return rows - self.shift

    queries = documents

    def modules(self) -> list[nn.Module]:
        dense = Dense(len(self.shift), len(self.shift), activation_function=nn.Identity())
        dense.linear.load_state_dict(
            {"weight": torch.eye(len(self.shift)), "bias": torch.from_numpy(-self.shift)}
        )
        return [dense]


@pytest.fixture
def centring() -> Iterator[None]:
    TRANSFORMS["centre"] = Centring  # the one line
    yield
    del TRANSFORMS["centre"]


@pytest.mark.parametrize("tail", ["", "+none", "+pcw@128:size=12", "+pi@128"])
def test_a_new_map_is_fitted_saved_and_loaded(folder, centring, tmp_path, tail) -> None:
    model: Any = tiny.adapted(f"{folder}{tail}", CORPUS, weights=None, centre=0.5)
    base = SentenceTransformer(str(folder), device="cpu")
    if tail:
        base = longembed.load(f"{folder}{tail}", device="cpu")  # type: ignore[assignment]
    plain: Any = with_head(base, Head.of(base).unscaled())
    want = plain.encode_document(TEXTS) - 0.5 * pieces(base, CORPUS).mean(0)
    assert np.abs(model.encode_document(TEXTS) - want).max() < 1e-5
    model.save_pretrained(str(tmp_path / "saved"))
    if tail:
        saved: Any = longembed.load(tmp_path / "saved", device="cpu")
    else:
        saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.abs(saved.encode_document(TEXTS) - want).max() < 1e-5


@pytest.mark.parametrize("tail", ["+none", "+pcw@128:size=12", "+pi@128"])
def test_a_new_map_is_a_setting_of_a_name(folder: Path, centring: None, tail: str) -> None:
    colon = "," if ":" in tail else ":"
    found = longembed.search(f"{folder}{tail}{colon}centre=0.5", device="cpu")
    found.add(map(str, range(len(CORPUS))), CORPUS)
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    plain: Any = with_head(model, Head.of(model).unscaled())
    shift = 0.5 * pieces(model, CORPUS).mean(0)
    rows = unit(plain.encode_document(CORPUS) - shift)
    want = rows @ unit(plain.encode_query([CORPUS[3]]) - shift)[0]
    got = {hit.id: hit.score for hit in found.search(CORPUS[3], len(CORPUS))}
    assert max(abs(score - want[int(key)]) for key, score in got.items()) < 1e-5 and len(got) == len(CORPUS)
    assert "centre=0.5" in str(found)


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


def test_shrinkage_from_sums_is_that_of_scikit_learn() -> None:
    from sklearn.covariance import ledoit_wolf

    rng = np.random.default_rng(1)
    for n, shift in ((8, 0.0), (60, 5.0), (2000, 1.0)):
        rows = rng.standard_normal((n, 12)) @ rng.standard_normal((12, 12)) + shift
        covariance, shrinkage = ledoit_wolf(rows)
        mean, own, own_shrinkage = Moments.of(rows).covariance()
        assert own_shrinkage == pytest.approx(shrinkage, rel=1e-6)
        blend = (1 - own_shrinkage) * own + own_shrinkage * np.trace(own) / 12 * np.eye(12)
        assert np.abs(blend - covariance).max() < 1e-8 * np.abs(covariance).max() + 1e-10
        assert np.allclose(mean, rows.mean(0))


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
