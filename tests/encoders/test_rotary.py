"""Every strategy on rotary models equals a slow oracle: one document, every pair of tokens turned by hand."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import mteb_longembed as longembed
from mteb_longembed.encoders.head import Head
from mteb_longembed.encoders.model import LongTransformer
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError
from tests import tiny
from tests.encoders.oracle_matrix.oracle import LO, LT, VARIANTS, Oracle
from tests.encoders.strategies import test_pcw
from tests.limits import same_vectors

LENGTHS = (3, LO - 1, LO, LO + 1, 2 * LO + 3, LT, LT + 1)
TEXTS = [tiny.text(n) for n in LENGTHS]

GQA = {"num_key_value_heads": 2, "head_dim": 8}
LAYERS = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 6}
GEMMA = {**GQA, **LAYERS, "query_pre_attn_scalar": 8}
LINEAR = {"rope_theta": 500.0, "rope_type": "linear", "factor": 2.0}
#: test id -> model type, configuration, pooling
MODELS: dict[str, tuple[str, dict, str]] = {
    "mistral": ("mistral", {**GQA, "sliding_window": LO}, "lasttoken"),
    "llama": ("llama", {**GQA, "rope_parameters": LINEAR}, "mean"),
    "qwen2": ("qwen2", GQA, "lasttoken"),
    "qwen3": ("qwen3", GQA, "lasttoken"),
    "gemma3": ("gemma3_text", GEMMA, "mean"),
    "embeddinggemma": ("gemma3_text", {**GEMMA, "use_bidirectional_attention": True}, "mean"),
    "nomic_bert": ("nomic_bert", {}, "mean"),
    "modernbert": ("modernbert", {**LAYERS, "local_attention": 12}, "cls"),
    "gte": ("gte", {}, "cls"),
    "eurobert": ("eurobert", GQA, "mean"),
    "jina-v3": ("jina_embeddings_v3", {}, "mean"),
}
STRATEGY_PARAMETERS = {key: params for label, (key, params) in VARIANTS.items() if label == key}


def through(model: SentenceTransformer, text: str, limit: int = LT) -> np.ndarray:
    """One document through the modules of a model, whatever length the model itself would cut it to."""
    ids = model.tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
    features = {name: ids[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        for module in model:
            features = module(features)
    return features["sentence_embedding"][0].numpy()


def gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def extended(base: SentenceTransformer, key: str, target: int = LT, **params) -> SentenceTransformer:
    modules = list(copy.deepcopy(base))
    strategy = STRATEGIES[key](trained_len=LO, target_len=target, **params)
    modules[0] = LongTransformer.made_of(modules[0], strategy)
    modules = [modules[0], *Head.of(modules).modules(cuts=modules[0].cuts)]
    return SentenceTransformer(modules=modules, device="cpu")


_BASES: dict[str, SentenceTransformer] = {}


@pytest.fixture
def make_base(tmp_path_factory) -> Callable[[str], SentenceTransformer]:
    return lambda name: make(name, tmp_path_factory)


def make(name: str, tmp_path_factory) -> SentenceTransformer:
    if name not in _BASES:
        kind, config, pooling = MODELS[name]
        if kind not in CONFIG_MAPPING:
            pytest.skip(f"this transformers has no {kind}: gte came with 5.18")
        _BASES[name] = tiny.sentence_transformer(kind, tmp_path_factory.mktemp(name), pooling, **config)
    return _BASES[name]


#: Causal with a window, and rotary modules by layer. On the others one strategy acts in attention and one outside of
#: it; the long oracle matrix has every pair.
DIFFERENT = ("mistral", "modernbert")
CELLS = [
    (name, key)
    for name in sorted(MODELS)
    for key in sorted(STRATEGY_PARAMETERS)
    if name in DIFFERENT or key in ("se", "pi")
]


@pytest.mark.parametrize(("name", "key"), CELLS)
def test_equals_the_oracle_whatever_else_is_in_the_batch(make_base, name, key):
    base = make_base(name)
    together = extended(base, key, **STRATEGY_PARAMETERS[key]).encode(TEXTS)
    oracle = Oracle(base, key, logn=True)
    for text, got in zip(TEXTS, together, strict=True):
        assert gap(got, oracle.encode(text)) < 1e-5


@pytest.mark.parametrize("name", ["jina-v3", "qwen3"])
def test_the_oracle_can_tell_the_strategies_apart(make_base, name):
    base = make_base(name)
    vectors = {key: Oracle(base, key, logn=True).encode(TEXTS[-2]) for key in STRATEGY_PARAMETERS}
    keys = sorted(vectors)
    gaps = {(a, b): gap(vectors[a], vectors[b]) for a in keys for b in keys if a < b}
    assert min(gaps.values()) > 1e-3, min(gaps, key=gaps.get)


def windows(base: SentenceTransformer, text: str) -> np.ndarray:
    """Each window of `pcw` through the base alone."""
    return test_pcw.oracle(base, text, target=LT)


@pytest.mark.parametrize("name", ["mistral", "modernbert"])
def test_windows_are_pooled_one_by_one_and_averaged(make_base, name):
    base = make_base(name)
    assert gap(extended(base, "pcw").encode(TEXTS[4]), windows(base, TEXTS[4])) < 1e-5


@pytest.mark.parametrize("name", ["mistral", "modernbert"])
@pytest.mark.parametrize("key", ["se", "pi"])
def test_half_precision_stays_within_two_percent(make_base, name, key):
    base = make_base(name)
    exact = extended(base, key).encode(TEXTS)
    rounded = extended(copy.deepcopy(base).bfloat16(), key).encode(TEXTS)
    # cosine distance of normalised vectors; bf16 keeps 8 bits, so weights alone are off by 0.4 %
    assert (1 - (exact * rounded).sum(1)).max() < 0.02


@pytest.mark.parametrize("key", ["se", "pi", "ntk"])
def test_sliding_layers_with_a_rope_base_of_their_own_must_see_fewer_tokens_than_training(key, tmp_path):
    base = tiny.sentence_transformer("gemma3_text", tmp_path, **{**GEMMA, "sliding_window": LO})
    with pytest.raises(IncompatibleError, match=r"sliding layers must see fewer tokens than .* got 16; use"):
        extended(base, key)
    same_vectors(extended(base, "none", LO).encode(TEXTS[:3]), base.encode(TEXTS[:3]))


def test_a_model_of_sliding_layers_alone_runs_as_it_is_or_in_windows(tmp_path):
    layers = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 6, "query_pre_attn_scalar": 8}
    base = tiny.sentence_transformer("gemma3_text", tmp_path, **GQA, **layers)
    texts = [text for text, n in zip(TEXTS, LENGTHS, strict=True) if n <= LO]
    for key in ("none", "pcw"):
        same_vectors(longembed.extend(base, key, trained_len=LO).encode(texts), base.encode(texts))
    with pytest.raises(
        IncompatibleError, match=r"a model with unknown positions; these strategies fit: pcw, none"
    ):
        longembed.extend(base, "gp", trained_len=LO)
