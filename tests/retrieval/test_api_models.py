"""`+pcw` on an encoder behind an API: a loopback server speaks it, the tokenizer is made here."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import mteb
import numpy as np
import pytest
from datasets import Dataset
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import mteb_longembed as longembed
from mteb_longembed.encoders.checkpoint import ModelSpec
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.encoder import WindowedEncoder
from mteb_longembed.retrieval.experiments import windowed
from mteb_longembed.retrieval.heads import Pass
from mteb_longembed.retrieval.make import make_scorer, searching
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.settings import SearchSettings
from tests.loopback_server import serving
from tests.own_data import beir

tiktoken = pytest.importorskip("tiktoken")
pytest.importorskip("openai")

ADA = "openai/text-embedding-ada-002"
WORDS = ("alpha", "beta", "gamma", "delta", "naïve", "日本")


def encoding(name: str = "cl100k_base") -> Any:
    """A byte-pair encoding of a few words, complete over all bytes."""
    ranks = {bytes([i]): i for i in range(256)}
    for merged in (b"al", b"ph", b"alph", b"alpha", b" al", b" alph", b"be", b"ta", b"beta", b"mm", b"gamm"):
        ranks[merged] = len(ranks)
    return tiktoken.Encoding(name, pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens={})


ENCODING = encoding()


def vector(text: str) -> np.ndarray:
    """A unit vector that only this text has."""
    seed = int.from_bytes(text.encode(), "little") % (2**63)
    out = np.random.default_rng(seed).standard_normal(1536)
    return out / np.linalg.norm(out)


@pytest.fixture
def asked(monkeypatch) -> Iterator[list[dict[str, Any]]]:
    """What a server that speaks the API gets."""
    seen = []

    def embed(path: str, call: dict[str, Any]) -> str:
        seen.append({"path": path, **call})
        vectors = [vector(text).tolist() for text in call["input"]]
        data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return json.dumps({"object": "list", "data": data, "model": call["model"], "usage": usage})

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "cl100k_base", ENCODING)
    with serving(embed) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        yield seen


def encode(model: Any, texts: list[str]) -> np.ndarray:
    task = mteb.get_task("NFCorpus")
    batches = DataLoader(Dataset.from_dict({"text": texts}), batch_size=4)
    return model.encode(batches, task_metadata=task.metadata, hf_split="test", hf_subset="default")


def document(words: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words))


def test_a_named_api_model_averages_the_vectors_of_its_windows(asked):
    meta = windowed(mteb.get_model_meta(ADA), ModelSpec.parse(f"{ADA}+pcw@60,trained_len=20"))
    experiment = {"strategy": "pcw", "target_len": 60, "trained_len": 20, "algorithm": ALGORITHM}
    assert (meta.name, meta.revision, meta.experiment_kwargs) == (ADA, "3", experiment)
    assert meta.max_tokens == 60
    model = meta.load_model()
    assert model.mteb_model_meta.experiment_kwargs == experiment
    texts = ["alpha beta", document(12), document(80, 1), "  "]
    got = encode(model, texts)
    sent = [text for call in asked for text in call["input"]]
    assert all(len(text.split()) <= 15 for text in sent)
    assert {call["model"] for call in asked} == {"text-embedding-ada-002"}
    for text, vec in zip(texts[:3], got, strict=False):
        want = np.mean([vector(piece) for piece in model.windows(text)], axis=0)
        assert np.abs(vec - want).max() < 1e-6
    assert len(model.windows(texts[2])) >= 3
    # as mteb's own wrapper does with empty texts
    assert not got[3].any()


def test_short_texts_are_sent_as_they_are_and_equal_the_stock_encoder(asked):
    texts = ["  alpha\nbeta ", "gamma"]
    stock = encode(mteb.get_model(ADA), texts)
    ours = encode(windowed(mteb.get_model_meta(ADA), ModelSpec.parse(f"{ADA}+pcw@32k")).load_model(), texts)
    assert np.array_equal(stock, ours)


@settings(max_examples=150)
@example("x" * 500, 7, 2)
@given(
    st.lists(st.sampled_from([*WORDS, "\n", "  x", "🙂🙂", "x" * 90]), max_size=60).map(" ".join),
    st.integers(4, 30),
    st.integers(1, 6),
)
def test_windows_laid_end_to_end_are_the_text_up_to_the_target(text, trained, scale):
    pieces = WindowedEncoder(Mock(), trained, trained * scale).windows(text)
    assert text.startswith("".join(pieces)) and len(pieces) <= scale
    if len(pieces) < scale:
        assert "".join(pieces) == text
    if len(pieces) > 1:
        assert all(len(piece.split()) <= 0.75 * trained for piece in pieces[:-1])


def test_what_does_not_fit_is_said_in_one_sentence():
    base = mteb.get_model_meta(ADA)
    with pytest.raises(IncompatibleError, match="se acts inside a model, and the inside of openai"):
        windowed(base, ModelSpec.parse(f"{ADA}+se"))
    with pytest.raises(InputError, match="part of its name, got algorithm=le1"):
        windowed(base, ModelSpec.parse(f"{ADA}+pcw")).load_model(algorithm="le1")
    with pytest.raises(InputError, match="give trained_len, such as :trained_len=512"):
        windowed(base.model_copy(update={"max_tokens": None}), ModelSpec.parse(f"{ADA}+pcw"))


def test_windows_in_the_pass_of_their_model_score_as_the_name_does(asked):
    of_name = make_scorer("ada-002+pcw@60:trained_len=20")
    pieces = mteb.get_model("ada-002+pcw@60:trained_len=20").windows
    of_pass = searching(Pass(lambda: mteb.get_model(ADA)), None, SearchSettings(), pieces)
    texts = [document(12), document(80, 1), document(40, 2)]
    for scorer in (of_name, of_pass):
        scorer.fit(Documents(["a", "b", "c"], texts))
    assert len(pieces(texts[1])) > 1
    assert of_pass.scores(texts) == pytest.approx(of_name.scores(texts), abs=1e-6)


def test_a_comparison_asks_for_each_text_once_for_the_model_and_for_windows_around_it(asked, tmp_path):
    texts = [document(8, seed) for seed in range(5)] + [document(5_000, 9)]
    queries = [f"{text[:30]} {number}" for number, text in enumerate(texts)]
    data = beir(tmp_path / "data", texts, queries)
    names = ["ada-002", "ada-002+pcw@20k"]
    options: dict[str, Any] = {"show": False, "on_message": lambda text: None, "bm25": False}
    result = longembed.compare(names, data, output_folder=tmp_path, **options)
    assert len(result.summary) == 3 and not result.texts("left out")
    inputs = Counter(text for call in asked for text in call["input"])
    assert all(inputs[text] == 1 for text in (*texts[:5], *queries))
