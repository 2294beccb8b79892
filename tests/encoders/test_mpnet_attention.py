"""MPNet's attention in one call of torch's function equals transformers' plain one."""

import pytest
import torch
from transformers import AutoModel

from mteb_longembed.encoders import swap
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.encoders.swap import FusedAttention, fuse_attention
from tests import tiny


@pytest.fixture
def models(tmp_path) -> list[torch.nn.Module]:
    """The same model twice: as transformers has it, and with our attention."""
    tiny.transformer("mpnet", tmp_path)
    plain, fused = (AutoModel.from_pretrained(tmp_path).eval() for _ in range(2))
    fuse_attention(fused, STRATEGIES["none"](trained_len=16, target_len=16))
    return [plain, fused]


@pytest.mark.parametrize("lengths", [(16, 16), (16, 5)])
def test_tokens_and_gradients_are_those_of_transformers(models, lengths, monkeypatch) -> None:
    calls = []
    function = swap.scaled_dot_product_attention
    monkeypatch.setattr(
        swap, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or function(*a, **k)
    )
    mask = (torch.arange(16) < torch.tensor(lengths)[:, None]).long()
    ids = torch.where(mask.bool(), torch.arange(10, 26), 1)
    found = []
    for model in models:
        tokens = model(input_ids=ids, attention_mask=mask).last_hidden_state
        (tokens * mask[..., None]).sin().sum().backward()
        found.append((tokens[mask.bool()], model.encoder.relative_attention_bias.weight.grad))
    assert len(calls) == 2  # one for each layer
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-4, rtol=1e-4)


def test_an_extended_model_has_it(tmp_path) -> None:
    import mteb_longembed as longembed

    tiny.sentence_transformer("mpnet", tmp_path)
    model = longembed.load(f"{tmp_path / 'model'}+ntk@64", device="cpu")
    assert sum(type(module) is FusedAttention for module in model.modules()) == 2
