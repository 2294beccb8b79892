import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from experiments.export import export
from experiments.models import BUILDERS, embed
from experiments.recipe import Recipe, Shape
from experiments.text import Corpus
from experiments.train import info_nce, train_steps
from tests.limits import same_vectors

ROOT = Path(__file__).parents[2]
STORED = json.loads(Path(__file__).with_name("stored_losses.json").read_text(encoding="utf-8"))
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
SHAPE = Shape(vocab_size=8192, hidden_size=24, **LAYERS)
RECIPE = Recipe(
    name="tiny", seed=3, shape=SHAPE, steps=30, decay_steps=10, warmup_steps=5, first_lr=2e-3, lr=1e-3,
    weight_decay=0.01, temperature=0.1, tokens_per_batch=512, min_docs=8, max_docs=16, first_steps=10,
    first_length=40, lengths={40: 0.5, 64: 0.5},
)  # fmt: skip


@pytest.fixture(scope="module")
def sample() -> str:
    """The text of the licence: it is long enough, and nobody edits it."""
    return (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tokenizer():
    # the one that ships: training a vocabulary breaks ties at random, so it is never the same twice
    return Tokenizer.from_file(str(ROOT / "mteb_longembed" / "models" / "mini-ape" / "tokenizer.json"))


@pytest.fixture(scope="module")
def corpus(sample, tokenizer):
    ids = np.array(tokenizer.encode(sample, add_special_tokens=False).ids)
    train, held_out = ids[: len(ids) * 3 // 4], ids[len(ids) * 3 // 4 :]
    return Corpus(np.array_split(train, 2), [held_out])


@pytest.mark.parametrize("positions", ["ape", "rope"])
def test_thirty_steps_give_the_stored_losses(tmp_path, corpus, positions):
    torch.set_num_threads(1)
    losses = [loss for _, loss, _ in train_steps(RECIPE, positions, corpus, tmp_path, 100)]
    # other processors round differently, and the differences grow from step to step
    assert losses == pytest.approx(STORED[positions], abs=0.02)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3


def test_the_loss_of_two_pairs_by_hand():
    q = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    d = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    by_query = (np.log(np.exp([1, 0.6]).sum()) - 1, np.log(np.exp([0, 0.8]).sum()) - 0.8)
    by_document = (np.log(np.exp([1, 0]).sum()) - 1, np.log(np.exp([0.6, 0.8]).sum()) - 0.8)
    want = (np.mean(by_query) + np.mean(by_document)) / 2
    assert info_nce(q, d, 1.0).item() == pytest.approx(want, rel=1e-5)


def test_the_pair_starts_from_the_same_weights():
    ape, rope = (BUILDERS[k](SHAPE, 3) for k in ("ape", "rope"))
    of_ape, of_rope = (sum(p.double().abs().sum() for p in model.parameters()) for model in (ape, rope))
    table = ape.embeddings.position_embeddings.weight.double().abs().sum()
    assert torch.isclose(of_ape - table, of_rope)
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    with torch.no_grad():
        ape.embeddings.position_embeddings.weight.zero_()
        for module in rope.modules():
            if hasattr(module, "inv_freq"):
                module.inv_freq.zero_()
    # without their positions the two are one model
    same_vectors(embed(ape, ids), embed(rope, ids))


@pytest.mark.parametrize("positions", ["ape", "rope"])
def test_an_exported_model_is_an_ordinary_sentence_transformer(tmp_path, sample, tokenizer, positions):
    model = BUILDERS[positions](SHAPE, 3).eval()
    export(model, tokenizer, RECIPE, tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    text = " ".join(sample.split()[:30])
    ids = torch.tensor([tokenizer.encode(text).ids])
    expected = embed(model, ids).detach().numpy()[0]
    assert np.abs(loaded.encode(text) - expected).max() < 2e-3  # half precision on disk
    assert next(loaded.parameters()).dtype == torch.float32
    assert loaded.max_seq_length == SHAPE.trained_len
    assert len(loaded.tokenizer(text * 40, truncation=True)["input_ids"]) == SHAPE.trained_len
