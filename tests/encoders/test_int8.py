"""`dtype=int8`: linear layers in whole numbers, whose results depend on no other token."""

import numpy as np
import pytest
import torch
from torch import nn

import mteb_longembed as longembed
from mteb_longembed.encoders import int8
from mteb_longembed.encoders.int8 import Int8Linear, check_int8
from mteb_longembed.errors import InputError
from tests import tiny
from tests.encoders.oracle_matrix import architectures

pytestmark = pytest.mark.skipif(not int8._kernel_is_right(), reason="torch has no int8 kernel here")


@pytest.fixture(scope="module")
def model(base_folder):
    return longembed.load(f"{base_folder}+pi@128:dtype=int8")


@torch.no_grad()
@pytest.mark.parametrize(("width", "out", "bias"), [(64, 16, True), (33, 70, False), (768, 3072, True)])
def test_a_layer_is_the_product_of_whole_numbers(width: int, out: int, bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(width, out, bias=bias).eval()
    x = torch.randn(2, 5, width) * torch.logspace(-3, 3, 5)[:, None]
    layer = Int8Linear(linear).eval()
    weights = linear.weight.double()
    a = weights.abs().amax(1, keepdim=True) / 127
    b = x.double().abs().amax(-1, keepdim=True) / 63
    want = ((x / b + 64.5).floor() - 64) * b @ ((weights / a).round() * a).T
    if bias:
        want = want + linear.bias.double()
    # an input or a weight halfway between two whole numbers may go to either, as fp32 rounds it
    assert float((layer(x).double() - want).norm() / want.norm()) < 2e-3
    exact = linear(x)
    assert float((layer(x) - exact).norm() / exact.norm()) < 0.03


def test_a_token_of_zeros_gives_the_bias() -> None:
    linear = nn.Linear(16, 4)
    assert torch.equal(Int8Linear(linear).eval()(torch.zeros(2, 16)), linear.bias.detach().expand(2, 4))


def test_a_result_does_not_depend_on_the_other_tokens() -> None:
    layer = Int8Linear(nn.Linear(64, 64)).eval()
    x = torch.randn(300, 64)
    full = layer(x)
    x[7:] *= 1000
    assert torch.equal(layer(x)[:7], full[:7]) and torch.equal(layer(x[:7]), full[:7])


def test_every_linear_layer_of_the_transformer_is_in_int8_and_nothing_else(model) -> None:
    inner = model[0].model
    assert not [name for name, module in inner.named_modules() if type(module) is nn.Linear]
    assert sum(isinstance(module, Int8Linear) for module in inner.modules()) >= 6
    assert {parameter.dtype for parameter in inner.parameters()} == {torch.float32}


def test_the_name_says_int8_and_embeddings_stay_close_to_fp32(model, base_folder) -> None:
    assert model.model_card_data.model_name.endswith("+pi@128,dtype=int8")
    texts = [tiny.text(n, n) for n in (5, 16, 40, 100)]
    plain = longembed.load(f"{base_folder}+pi@128").encode(texts)
    got = model.encode(texts)
    cosines = (plain * got).sum(1) / np.linalg.norm(plain, axis=1) / np.linalg.norm(got, axis=1)
    # width 32 and random weights; real models are closer
    assert cosines.min() > 0.95 and not np.array_equal(plain, got)


@pytest.mark.parametrize("name", ["distilbert", "mistral", "t5", "roformer"])
def test_every_family_stays_close_to_fp32_beyond_its_trained_length(name: str, tmp_path) -> None:
    architectures.built(name, tmp_path / "made").save_pretrained(str(tmp_path / "saved"))
    key = "pi" if name == "distilbert" else "se"
    texts = [tiny.text(n, n) for n in (5, 40, 100)]
    name = f"{tmp_path}/saved+{key}@128:trained_len=16"
    quantised, exact = (longembed.load(f"{name}{tail}").encode(texts) for tail in (",dtype=int8", ""))
    assert ((quantised * exact).sum(1) > 0.99).all()


def test_a_model_that_is_extended_further_keeps_int8_and_its_name(base_folder) -> None:
    extended = longembed.extend(longembed.load(f"{base_folder}+none:dtype=int8"), "pi", target_len=128)
    direct = longembed.load(f"{base_folder}+pi@128:dtype=int8")
    assert extended.model_card_data.model_name == direct.model_card_data.model_name
    text = [tiny.text(40)]
    assert np.array_equal(extended.encode(text), direct.encode(text))


def test_another_device_is_refused_in_one_sentence(base_folder) -> None:
    with pytest.raises(InputError, match="runs on a CPU only, got the device 'cuda:0': use dtype=bf16"):
        longembed.load(f"{base_folder}+pi@128:dtype=int8", device="cuda:0")
    with pytest.raises(InputError, match="runs on a CPU only, got an input on meta"):
        Int8Linear(nn.Linear(4, 4))(torch.ones(1, 4, device="meta"))


def test_without_the_kernel_it_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "_kernel_is_right", lambda: False)
    with pytest.raises(InputError, match="needs the int8 kernel of oneDNN"):
        check_int8()


def test_a_kernel_with_wrong_numbers_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Int8Linear._product
    monkeypatch.setattr(Int8Linear, "_product", lambda self, x: original(self, x) * 0.99)
    assert not int8._kernel_is_right.__wrapped__()


def test_a_model_in_int8_is_neither_saved_nor_trained(model, tmp_path) -> None:
    with pytest.raises(InputError, match="int8 cannot be saved"):
        model.save_pretrained(str(tmp_path / "saved"))
    with pytest.raises(InputError, match="int8 cannot be trained"):
        Int8Linear(nn.Linear(4, 4)).train()(torch.ones(1, 4))
