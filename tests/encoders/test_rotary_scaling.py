"""Bases with rope scaling of their own, training, and files: what rotary models must not get wrong."""

import copy
import pickle

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from mteb_longembed.errors import IncompatibleError, ModelError
from tests import tiny
from tests.limits import same_vectors

from .test_rotary import LO, LT, extended, gap, make

TEXTS = [tiny.text(n) for n in (5, LO, 2 * LO, LT)]
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
    fresh = [extended(base, key).encode(text) for text in TEXTS]
    model = extended(base, key)
    assert gap(model.encode(TEXTS), np.stack(fresh)) < 1e-5
    assert gap(model.encode(TEXTS[::-1])[::-1], np.stack(fresh)) < 1e-5
    assert gap(np.stack([model.encode(text) for text in TEXTS]), np.stack(fresh)) < 1e-5


def test_yarn_refuses_a_scaled_base(tmp_path_factory):
    with pytest.raises(IncompatibleError, match=r"plain rotary frequencies.*LlamaModel.*type yarn; use ntk"):
        extended(scaled("yarn", tmp_path_factory), "yarn")


def test_attention_strategies_refuse_frequencies_that_vary_with_length(tmp_path_factory):
    with pytest.raises(IncompatibleError, match="same rotary frequencies at every length"):
        extended(scaled("dynamic", tmp_path_factory), "se")


SOFT_CAPPED = {"head_dim": 8, "layer_types": ["full_attention"] * 2, "attn_logit_softcapping": 5.0}


def test_models_whose_sliding_layers_share_the_rotary_module_say_so(tmp_path_factory):
    config = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 6}
    config |= {"use_sliding_window": True, "head_dim": 8}
    base = tiny.sentence_transformer("qwen3", tmp_path_factory.mktemp("q"), num_key_value_heads=2, **config)
    with pytest.raises(IncompatibleError, match="share one rotary module with the layers of full attention"):
        extended(base, "gp")
    assert extended(base, "se").encode(TEXTS[-1]).shape == (32,)


def test_a_soft_cap_is_refused_by_the_configuration(tmp_path_factory):
    base = tiny.sentence_transformer("gemma3_text", tmp_path_factory.mktemp("g"), **SOFT_CAPPED)
    for key in ("se", "pi"):
        with pytest.raises(IncompatibleError, match="model with unknown positions"):
            extended(base, key)


@pytest.mark.parametrize(
    ("key", "params", "remedy"),
    [("se", {}, "use pi or ntk with logn=off, or leave it out"), ("pi", {}, "or leave it out")],
)
def test_strategies_inside_attention_refuse_another_attention_function(key, params, remedy, make_llama):
    make_llama[0].model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(IncompatibleError, match=rf"attn_implementation=flash_attention_2.* {remedy}\.$"):
        extended(make_llama, key, **params)


def test_strategies_outside_attention_leave_another_attention_function_alone(make_llama):
    want = extended(make_llama, "pi", logn=False).encode(TEXTS)
    # the name is all that is looked at; transformers' SDPA stands in for the kernel
    name = "flash_attention_of_a_test"
    AttentionInterface.register(name, sdpa_attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    make_llama[0].model.config._attn_implementation = name
    model = extended(make_llama, "pi", logn=False)
    assert model[0].config._attn_implementation == name
    same_vectors(model.encode(TEXTS), want)


def test_a_call_past_the_sentence_transformer_is_refused_once_documents_are_known(make_llama):
    model = extended(make_llama, "gp")
    model.encode(TEXTS[-1])
    ids = torch.ones(3, 20, dtype=torch.long)
    with pytest.raises(ModelError, match="was called directly"):
        model[0].model(input_ids=ids, attention_mask=torch.ones_like(ids))


@pytest.fixture
def make_llama(tmp_path_factory):
    return tiny.sentence_transformer("llama", tmp_path_factory.mktemp("l"), num_key_value_heads=2)


@pytest.mark.parametrize(("name", "key"), [("modernbert", "se"), ("jina-v3", "gp")])
def test_copies_pickles_and_saved_folders_encode_the_same(name, key, tmp_path_factory, tmp_path):
    model = extended(make(name, tmp_path_factory), key)
    want = model.encode(TEXTS)
    assert gap(copy.deepcopy(model).encode(TEXTS), want) == 0
    assert gap(pickle.loads(pickle.dumps(model)).encode(TEXTS), want) == 0
    model[0].save(str(tmp_path))
    model[0] = type(model[0]).load(str(tmp_path))
    same_vectors(model.eval().encode(TEXTS), want)
