"""Models of types that were not tested: none and pcw, and never a strategy or another architecture in silence."""

import copy

import numpy as np
import pytest
from transformers import AutoConfig, BertConfig, Gemma3TextConfig

import mteb_longembed as longembed
from mteb_longembed.encoders.positions import UNKNOWN, check_fit, positions_of
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError, ModelError
from tests import tiny
from tests.encoders.oracle_matrix import architectures
from tests.limits import same_vectors

from .test_rotary import LO, LT, extended, gap, windows

TEXTS = [tiny.text(n) for n in (5, LO, LT)]


@pytest.fixture(scope="module", params=["deberta-v2", "t5", "glm", "gpt_oss", "gemma2"])
def base(request, tmp_path_factory):
    # biases by distance, and rotary positions that turn neighbours, with attention sinks, under a soft cap
    model = architectures.built(request.param, tmp_path_factory.mktemp(request.param))
    assert positions_of(model[0].config) is UNKNOWN
    return model


def test_only_none_and_windows_fit(base):
    assert [key for key, strategy in STRATEGIES.items() if UNKNOWN.fits(strategy)] == ["pcw", "none"]
    with pytest.raises(IncompatibleError, match="se does not fit x, a model with unknown positions"):
        check_fit(base[0].config, STRATEGIES["se"](trained_len=LO, target_len=LT), "x")


def test_none_is_the_base(base):
    longer = copy.deepcopy(base)
    longer.max_seq_length = LT
    same_vectors(extended(base, "none").encode(TEXTS), longer.encode(TEXTS))


def test_windows_are_averaged_and_short_inputs_untouched(base):
    *short, long = extended(base, "pcw").encode(TEXTS)
    same_vectors(np.stack(short), base.encode(TEXTS[:2]))
    assert gap(long, windows(base, TEXTS[2])) < 1e-5


def test_attention_scaling_is_refused_not_ignored(base):
    with pytest.raises(IncompatibleError, match=r"needs an attention that we know, got .*; use logn=off"):
        check_fit(base[0].config, STRATEGIES["none"](trained_len=LO, target_len=LO, logn=True), "x")


def test_code_from_elsewhere_has_unknown_positions_whatever_type_it_claims():
    class RemoteBertConfig(BertConfig):
        model_type = "bert"

    assert positions_of(RemoteBertConfig()) is UNKNOWN


@pytest.mark.parametrize(
    "settings", [{"attn_logit_softcapping": 5.0}, {"layer_types": ["sliding_attention"] * 2}]
)
def test_a_soft_cap_and_sliding_layers_alone_make_positions_unknown(settings):
    usual = {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}
    assert positions_of(Gemma3TextConfig(**usual)) is not UNKNOWN
    assert positions_of(Gemma3TextConfig(**{**usual, **settings})) is UNKNOWN


def test_alibi_under_a_native_name_asks_for_the_models_own_code(tmp_path):
    BertConfig(position_embedding_type="alibi").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"has the type 'bert' but alibi positions.*trust_remote_code=True"):
        positions_of(AutoConfig.from_pretrained(tmp_path))


def test_t5_has_its_trained_length_and_refuses_other_strategies_in_one_sentence(tmp_path):
    folder = tmp_path / "t5"
    architectures.built("t5", tmp_path).save_pretrained(str(folder))
    assert longembed.extend(folder, "pcw").resolved.strategy.trained_len == LO
    with pytest.raises(IncompatibleError, match=r"pi does not fit .* these strategies fit: pcw, none\.$"):
        longembed.extend(folder, "pi")
