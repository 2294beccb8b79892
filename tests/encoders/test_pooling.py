"""Several vectors per document equal slow loops over spans and windows, whatever else is in the batch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders.model import LongMultiVectorEncoder
from mteb_longembed.errors import IncompatibleError
from tests import tiny
from tests.encoders.strategies.test_pcw import alone, finished, slow_windows
from tests.limits import same_vectors

LO, LT = tiny.TRAINED, 8 * tiny.TRAINED
LENGTHS = (2, 3, 6, 7, LO, LO + 1, 40, LT, LT + 5)
TEXTS = [tiny.text(n, n) for n in LENGTHS]


@pytest.fixture(scope="module", params=["pi", "pcw"])
def single(request: pytest.FixtureRequest, base: SentenceTransformer) -> SentenceTransformer:
    return longembed.extend(base, request.param)


def several(single: SentenceTransformer, base: SentenceTransformer, vectors: int | str, **params):
    return longembed.extend(base, single.backbone.strategy.KEY, vectors=vectors, **params)


def spans_by_hand(single, base, text: str, size: int, prompt: str) -> np.ndarray:
    """Each span's tokens averaged in a loop; `query :` and `passage :` are two tokens each."""
    tokens = single.encode([text], prompt=prompt, output_value="token_embeddings")[0]
    content = list(range(1 + (2 if prompt else 0), len(tokens) - 1))
    if not content:
        return single.encode([text], prompt=prompt)
    spans = [content[a : a + size] for a in range(0, len(content), size)]
    return finished(base, [sum(tokens[i] for i in span) / len(span) for span in spans])


@pytest.mark.parametrize(("size", "prompt"), [(1, ""), (5, "passage : "), (500, "")])
def test_each_span_of_content_tokens_is_averaged_by_itself(single, base, size, prompt):
    model = several(single, base, size)
    together = model.encode_document(TEXTS, prompt=prompt)
    for text, got in zip(TEXTS, together, strict=True):
        want = spans_by_hand(single, base, text, size, prompt)
        assert got.shape == want.shape
        assert np.abs(got.numpy() - want).max() < 1e-5
        alone = model.encode_document(text, prompt=prompt)
        assert torch.allclose(alone, got, atol=1e-5)


def test_every_window_is_a_vector(base):
    model = longembed.extend(base, "pcw", size=8, overlap=2, vectors="window")
    for text, got in zip(TEXTS, model.encode_document(TEXTS, prompt="passage : "), strict=True):
        ids = base.tokenizer("passage : " + text, truncation=True, max_length=LT)["input_ids"]
        cut = [list(range(len(ids)))] if len(ids) <= 8 else slow_windows(len(ids), 8, 2, 3, 1)
        pooled = [alone(base, [ids[i] for i in window]) for window in cut]
        assert np.abs(got.numpy() - finished(base, pooled)).max() < 1e-5


def test_a_query_has_the_bases_own_vector(single, base):
    for vectors in (3, *(["window"] if single.backbone.strategy.KEY == "pcw" else [])):
        got = several(single, base, vectors).encode_query(TEXTS)
        assert all(len(rows) == 1 for rows in got)
        assert np.abs(torch.cat(got).numpy() - single.encode_query(TEXTS)).max() < 1e-5


def test_vectors_of_a_base_that_compares_by_dot_product_stay_raw(tmp_path: Path):
    made = tiny.sentence_transformer("bert", tmp_path)
    dot = SentenceTransformer(modules=list(made)[:2], device="cpu", similarity_fn_name="dot")
    dot.model_card_data.model_name = "tiny/dot"
    cosine = SentenceTransformer(modules=list(made)[:2], device="cpu")
    cosine.model_card_data.model_name = "tiny/cosine"
    raw = longembed.extend(dot, "pi", vectors=4).encode_document(TEXTS[6])
    unit = longembed.extend(cosine, "pi", vectors=4).encode_document(TEXTS[6])
    assert not torch.allclose(raw.norm(dim=1), torch.ones(len(raw)), atol=1e-2)
    assert torch.allclose(torch.nn.functional.normalize(raw, dim=1), unit, atol=1e-5)


@pytest.mark.parametrize(("pooling", "similarity"), [("cls", None), ("mean", "euclidean")])
def test_a_loaded_base_that_cannot_have_several_vectors_is_refused(tmp_path, pooling, similarity):
    made = tiny.sentence_transformer("bert", tmp_path, pooling=pooling, name="tiny/other")
    made.similarity_fn_name = similarity
    with pytest.raises(IncompatibleError, match=r"averages the tokens of a document|compared by cosine or"):
        longembed.extend(made, "pi", vectors=4)


@pytest.mark.parametrize(("key", "vectors"), [("pi", 5), ("pcw", "window")])
def test_a_saved_model_gives_the_same_vectors_and_name(base, tmp_path: Path, key, vectors):
    model = longembed.extend(base, key, vectors=vectors)
    assert model.model_card_data.model_name == f"tiny/bert+{key}@128,vectors={vectors}"
    model.save_pretrained(str(tmp_path / "saved"))
    saved = longembed.load(tmp_path / "saved", device="cpu")
    assert isinstance(saved, LongMultiVectorEncoder)
    assert saved.model_card_data.model_name == f"local/saved+{key}@128,vectors={vectors}"
    stock = MultiVectorEncoder(str(tmp_path / "saved"), trust_remote_code=True, device="cpu")
    for loaded in (saved, stock):
        for got, want in zip(loaded.encode_document(TEXTS), model.encode_document(TEXTS), strict=True):
            same_vectors(got, want)
    with pytest.raises(Exception, match=r"trust_remote_code"):
        MultiVectorEncoder(str(tmp_path / "saved"))
    with pytest.raises(ValueError, match="Unrecognized model"):
        SentenceTransformer(str(tmp_path / "saved"))
