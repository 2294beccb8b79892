from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from training import train as train_module
from training.config import Recipe, Shape, Stage
from training.corpus import Chapter, Corpus
from training.export import export
from training.models import BUILDERS, embed
from training.pairs import KINDS, PairMaker, batch_at
from training.train import backward, train
from training.vocabulary import train_vocabulary

SHAPE = Shape(
    vocab_size=400, hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)
STAGE = Stage("all", 4, 0.05, dict.fromkeys(KINDS, 1.0), {40: 1.0, 512: 0.2})
RECIPE = Recipe(
    "tiny",
    3,
    SHAPE,
    (STAGE,),
    lr=1e-3,
    warmup_steps=2,
    weight_decay=0.01,
    tokens_per_batch=256,
    min_docs=8,
    max_docs=8,
)


@pytest.fixture(scope="module")
def maker():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abdegiklmnorstu"), 5)) for _ in range(120)]
    texts = [" ".join(rng.choice(words, 900)) for _ in range(3)]
    tokenizer = train_vocabulary(texts, SHAPE.vocab_size)
    encoded = [np.array(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts]
    chapters = [Chapter(ids, np.arange(0, len(ids) + 1, 9)) for ids in encoded]
    sections = [(list(ids[:6]), list(ids[6:60])) for ids in np.array_split(encoded[0], 12)]
    return PairMaker(Corpus(chapters, np.full(3, 1 / 3), sections, words), tokenizer)


@pytest.fixture(autouse=True)
def no_probe(monkeypatch):
    monkeypatch.setattr(train_module, "probe", lambda model, maker: {})


def test_the_pair_starts_from_the_same_weights():
    ape, rope = (BUILDERS[k](SHAPE, 3) for k in ("ape", "rope"))
    total = {
        k: sum(p.double().abs().sum() for p in m.parameters()) for k, m in (("ape", ape), ("rope", rope))
    }
    table = ape.embeddings.position_embeddings.weight.double().abs().sum()
    assert torch.isclose(total["ape"] - table, total["rope"])
    ids = torch.tensor([[2, 7, 8, 9, 3]])
    with torch.no_grad():
        ape.embeddings.position_embeddings.weight.zero_()
        for module in rope.modules():
            if hasattr(module, "inv_freq"):
                module.inv_freq.zero_()
    # without their positions the two are one model
    assert torch.allclose(embed(ape, ids), embed(rope, ids), atol=1e-6)


@pytest.mark.parametrize("positions", ["ape", "rope"])
def test_positions_reach_the_embedding(positions):
    model = BUILDERS[positions](SHAPE, 3)
    with torch.no_grad():  # fresh weights are too small for attention to prefer anything
        for parameter in model.parameters():
            parameter.mul_(10)
    one, other = torch.tensor([[2, 7, 8, 9, 3]]), torch.tensor([[2, 9, 8, 7, 3]])
    assert not torch.allclose(embed(model, one), embed(model, other), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_documents_fit_and_twins_hold_the_same_words(maker, kind):
    queries, documents = KINDS[kind](maker, np.random.default_rng(1), 8, 60)
    assert all(0 < len(d) <= 60 for d in documents)
    assert all(queries)
    if kind == "twins":
        differing = [sorted(documents[i]) != sorted(documents[i + 1]) for i in range(0, 8, 2)]
        assert sum(differing) <= 3  # a quantity's twin speaks of other numbers
        assert all(documents[i] != documents[i + 1] for i in range(0, 8, 2))
    if kind == "shuffled":
        for one, other in zip(documents[:4], documents[4:], strict=True):
            assert sorted(one) == sorted(other)


def test_a_batch_depends_on_seed_and_step_alone(maker):
    one, again, next_one = batch_at(RECIPE, maker, 1), batch_at(RECIPE, maker, 1), batch_at(RECIPE, maker, 2)
    assert np.array_equal(one.documents, again.documents)
    assert np.array_equal(one.document_offsets, again.document_offsets)
    assert one.documents.shape != next_one.documents.shape or not np.array_equal(
        one.documents, next_one.documents
    )


def test_a_batch_in_parts_gives_the_gradients_of_the_whole(maker):
    batch = batch_at(RECIPE, maker, 0)
    models = [BUILDERS["rope"](SHAPE, 3) for _ in range(2)]
    losses = [
        backward(m, batch, 0.05, at_once, torch.device("cpu"))
        for m, at_once in zip(models, (64, 3), strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*(m.parameters() for m in models), strict=True):
        if one.grad is not None:
            assert torch.allclose(one.grad, other.grad, atol=1e-5)


def test_a_killed_run_ends_as_a_whole_one(tmp_path, maker, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = train(RECIPE, "ape", maker, tmp_path / "whole", every=2)

    def dying(recipe, maker, step):
        if step == 3:
            raise KeyboardInterrupt
        return batch_at(recipe, maker, step)

    monkeypatch.setattr(train_module, "batch_at", dying)
    with pytest.raises(KeyboardInterrupt):
        train(RECIPE, "ape", maker, tmp_path / "cut", every=2)
    monkeypatch.setattr(train_module, "batch_at", batch_at)
    resumed = train(RECIPE, "ape", maker, tmp_path / "cut", every=2)
    for name, value in whole.state_dict().items():
        assert torch.allclose(value, resumed.state_dict()[name], atol=1e-7), name


@pytest.mark.parametrize("positions", ["ape", "rope"])
def test_an_exported_model_is_an_ordinary_sentence_transformer(tmp_path, maker, positions):
    model = BUILDERS[positions](SHAPE, 3).eval()
    export(model, maker.tokenizer, RECIPE, tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    text = " ".join(maker.corpus.plain_words[:30])
    ids = torch.tensor([maker.tokenizer.encode(text).ids])
    expected = embed(model, ids).detach().numpy()[0]
    assert np.abs(loaded.encode(text) - expected).max() < 2e-3  # half precision on disk
    assert next(loaded.parameters()).dtype == torch.float32
    assert loaded.max_seq_length == SHAPE.trained_len
    assert len(loaded.tokenizer(text * 40, truncation=True)["input_ids"]) == SHAPE.trained_len


def test_every_recipe_is_readable_and_names_known_kinds():
    from pathlib import Path

    from training.config import load_recipe

    for path in Path("training/configs").glob("*.json"):
        recipe = load_recipe(path)
        assert json.loads(path.read_text())["name"] == recipe.name
        for stage in recipe.stages:
            assert set(stage.kinds) | set(stage.caps) <= set(KINDS)
            assert max(stage.lengths) <= recipe.shape.trained_len
