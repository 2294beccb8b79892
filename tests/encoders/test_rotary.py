"""Every strategy on rotary models equals a slow oracle: one document, every pair of tokens turned by hand."""

import copy
import functools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mteb_longembed.encoders.backbone import LongTransformer
from mteb_longembed.encoders.pooling import Pooling
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError, ModelError
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
    modules[0].__class__ = LongTransformer
    modules[0].extend(strategy)
    modules = [modules[0], *Pooling.of(modules).modules(cuts=modules[0].cuts)]
    return SentenceTransformer(modules=modules, device="cpu")


@pytest.fixture(scope="module")
def make_base(tmp_path_factory) -> Callable[[str], SentenceTransformer]:
    """The model of a test id, made once."""

    @functools.cache
    def make(name: str) -> SentenceTransformer:
        kind, config, pooling = MODELS[name]
        if kind not in CONFIG_MAPPING:
            pytest.skip(f"this transformers has no {kind}: gte came with 5.18")
        return tiny.sentence_transformer(kind, tmp_path_factory.mktemp(name), pooling, **config)

    return make


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


# ---- bases with rope scaling of their own, other attention functions, and files ----------------------------

SOME = [tiny.text(n) for n in (5, LO, 2 * LO, LT)]
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONGROPE = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 5.0]}
SCALINGS: dict[str, dict] = {
    "linear": {"factor": 2.0},
    "yarn": {"factor": 2.0, "original_max_position_embeddings": LO},
    "llama3": {"factor": 2.0, "original_max_position_embeddings": LO, **LLAMA3},
    "dynamic": {"factor": 2.0},
    "longrope": {"factor": 2.0, "original_max_position_embeddings": 8, **LONGROPE},
}


def scaled(kind: str, tmp_path_factory, **config):
    rope = {"rope_type": kind, "rope_theta": 500.0, **SCALINGS[kind]}
    return tiny.sentence_transformer("llama", tmp_path_factory.mktemp(kind), rope_parameters=rope, **config)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
@pytest.mark.parametrize("key", ["none", "pi"])
def test_an_embedding_never_depends_on_what_was_encoded_before_or_beside(kind, key, tmp_path_factory):
    base = scaled(kind, tmp_path_factory)
    fresh = [extended(base, key).encode(text) for text in SOME]
    model = extended(base, key)
    assert gap(model.encode(SOME), np.stack(fresh)) < 1e-5
    assert gap(model.encode(SOME[::-1])[::-1], np.stack(fresh)) < 1e-5
    assert gap(np.stack([model.encode(text) for text in SOME]), np.stack(fresh)) < 1e-5


def test_yarn_refuses_a_scaled_base(tmp_path_factory):
    with pytest.raises(IncompatibleError, match=r"plain rotary frequencies.*LlamaModel.*type yarn; use ntk"):
        extended(scaled("yarn", tmp_path_factory), "yarn")


def test_attention_strategies_refuse_frequencies_that_vary_with_length(tmp_path_factory):
    with pytest.raises(IncompatibleError, match="same rotary frequencies at every length"):
        extended(scaled("dynamic", tmp_path_factory), "se")


def test_models_whose_sliding_layers_share_the_rotary_module_say_so(tmp_path_factory):
    config = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 6}
    config |= {"use_sliding_window": True, "head_dim": 8}
    base = tiny.sentence_transformer("qwen3", tmp_path_factory.mktemp("q"), num_key_value_heads=2, **config)
    with pytest.raises(IncompatibleError, match="share one rotary module with the layers of full attention"):
        extended(base, "gp")
    assert extended(base, "se").encode(SOME[-1]).shape == (32,)


@pytest.mark.parametrize(
    ("key", "params", "remedy"),
    [("se", {}, "use pi or ntk with logn=off, or leave it out"), ("pi", {}, "or leave it out")],
)
def test_strategies_inside_attention_refuse_another_attention_function(key, params, remedy, make_llama):
    make_llama[0].model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(IncompatibleError, match=rf"attn_implementation=flash_attention_2.* {remedy}\.$"):
        extended(make_llama, key, **params)


def test_strategies_outside_attention_leave_another_attention_function_alone(make_llama):
    want = extended(make_llama, "pi", logn=False).encode(SOME)
    # the name is all that is looked at; transformers' SDPA stands in for the kernel
    name = "flash_attention_of_a_test"
    AttentionInterface.register(name, sdpa_attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    make_llama[0].model.config._attn_implementation = name
    model = extended(make_llama, "pi", logn=False)
    assert model[0].config._attn_implementation == name
    same_vectors(model.encode(SOME), want)


def test_a_call_past_the_sentence_transformer_is_refused_once_documents_are_known(make_llama):
    model = extended(make_llama, "gp")
    model.encode(SOME[-1])
    ids = torch.ones(3, 20, dtype=torch.long)
    with pytest.raises(ModelError, match="was called directly"):
        model[0].model(input_ids=ids, attention_mask=torch.ones_like(ids))


@pytest.fixture
def make_llama(tmp_path_factory):
    return tiny.sentence_transformer("llama", tmp_path_factory.mktemp("l"), num_key_value_heads=2)


@pytest.mark.parametrize(("name", "key"), [("modernbert", "se"), ("jina-v3", "gp")])
def test_copies_pickles_and_saved_folders_encode_the_same(name, key, make_base, tmp_path):
    model = extended(make_base(name), key)
    want = model.encode(SOME)
    assert gap(copy.deepcopy(model).encode(SOME), want) == 0
    assert gap(pickle.loads(pickle.dumps(model)).encode(SOME), want) == 0
    model[0].save(str(tmp_path))
    model[0] = type(model[0]).load(str(tmp_path))
    same_vectors(model.eval().encode(SOME), want)
