import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from experiments import train as train_module
from experiments.export import export
from experiments.models import BUILDERS, embed
from experiments.phrases import batch_at, held_out_batch, shares_of
from experiments.recipe import Recipe, Shape, load_recipe
from experiments.text import CLS, MASK, PAD, SEP, Corpus, open_corpus, open_vocabulary
from experiments.train import accuracy, info_nce, train_steps
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


def run(recipe: Recipe, positions: str, corpus: Corpus, out: Path, every: int = 100):
    """The losses of all steps, and the model."""
    steps = list(train_steps(recipe, positions, corpus, out, every))
    return [loss for _, loss, _ in steps], steps[-1][2]


def test_every_twentieth_chapter_is_held_out_and_the_corpus_follows_the_text(tmp_path, sample, tokenizer):
    books = tmp_path / "books.jsonl.gz"

    def write(number: int) -> None:
        with gzip.open(books, "wt", encoding="utf-8") as lines:
            for i in range(number):
                lines.write(json.dumps({"text": f"{i} {sample}"}) + "\n")

    write(41)
    first, second = (open_corpus(tmp_path / "corpus.npz", books, tokenizer) for _ in range(2))
    assert len(first.held_out) == 3 and len(first.chapters) == 38
    starts = [tokenizer.decode(ids[:2].tolist()).split()[0] for ids in first.held_out]
    assert starts == ["0", "20", "40"]
    for one, other in zip(first.chapters, second.chapters, strict=True):
        assert np.array_equal(one, other)
    write(21)
    assert len(open_corpus(tmp_path / "corpus.npz", books, tokenizer).held_out) == 2


@pytest.mark.parametrize("positions", ["ape", "rope"])
def test_thirty_steps_give_the_stored_losses(tmp_path, corpus, positions):
    torch.set_num_threads(1)
    losses, _ = run(RECIPE, positions, corpus, tmp_path)
    # other processors round differently, and the differences grow from step to step
    assert losses == pytest.approx(STORED[positions], abs=0.02)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3


def test_a_killed_run_ends_with_the_weights_of_a_whole_one(tmp_path, corpus, monkeypatch):
    recipe = replace(RECIPE, steps=6, decay_steps=2)
    _, full = run(recipe, "ape", corpus, tmp_path / "whole", every=2)

    def dying(recipe, chapters, shares, step):
        if step == 5:
            raise KeyboardInterrupt
        return batch_at(recipe, chapters, shares, step)

    monkeypatch.setattr(train_module, "batch_at", dying)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, "ape", corpus, tmp_path / "cut", every=2)
    monkeypatch.setattr(train_module, "batch_at", batch_at)
    losses, resumed = run(recipe, "ape", corpus, tmp_path / "cut", every=2)
    assert len(losses) == 2  # from step 4 on
    for name, value in full.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_run_can_end_earlier_from_a_checkpoint_before_the_decay(tmp_path, corpus):
    short = replace(RECIPE, steps=6, decay_steps=2)
    _, full = run(short, "rope", corpus, tmp_path / "whole")
    run(replace(RECIPE, steps=4, decay_steps=1), "rope", corpus, tmp_path / "other", every=3)
    # step 4 of that run belongs to its decay; the checkpoint of step 3 does not
    (tmp_path / "other" / "rope" / "step-000004.pt").unlink()
    _, ended = run(short, "rope", corpus, tmp_path / "other")
    for name, value in full.state_dict().items():
        assert torch.equal(value, ended.state_dict()[name]), name


def test_a_query_is_its_passage_less_a_tenth_and_a_third_of_it_is_masked(corpus):
    recipe = replace(RECIPE, max_docs=256, tokens_per_batch=256 * 64, first_steps=0, lengths={64: 1.0})
    batch = batch_at(recipe, corpus.chapters, shares_of(corpus.chapters), 0)
    assert batch.documents.shape == (256, 64)
    assert (batch.documents[:, 0] == CLS).all() and (batch.documents[:, -1] == SEP).all()
    masked = shared = lengths = 0
    for query, document in zip(batch.queries, batch.documents, strict=True):
        query = query[(query != PAD) & (query != CLS) & (query != SEP)]
        assert 1 <= len(query) <= 32
        masked += int((document == MASK).sum())
        shared += len(set(query.tolist()) & set(document.tolist()))
        lengths += len(set(query.tolist()))
    # phrases have 18 tokens on average; 0.8 of the documents have 0.3 of them masked
    assert masked / 256 == pytest.approx(18 * 0.8 * 0.3, abs=0.8)
    assert 0.75 < shared / lengths < 0.95


def test_the_loss_of_two_pairs_by_hand():
    q = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    d = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    by_query = (np.log(np.exp([1, 0.6]).sum()) - 1, np.log(np.exp([0, 0.8]).sum()) - 0.8)
    by_document = (np.log(np.exp([1, 0]).sum()) - 1, np.log(np.exp([0.6, 0.8]).sum()) - 0.8)
    want = (np.mean(by_query) + np.mean(by_document)) / 2
    assert info_nce(q, d, 1.0).item() == pytest.approx(want, rel=1e-5)


def test_held_out_phrases_are_the_same_every_time_and_a_fresh_model_finds_few(corpus):
    one, other = (held_out_batch(corpus.held_out, 32, 128) for _ in range(2))
    assert np.array_equal(one.queries, other.queries) and np.array_equal(one.documents, other.documents)
    assert one.documents.shape == (32, 128)
    assert accuracy(BUILDERS["rope"](SHAPE, 3).eval(), one) < 0.5


def test_a_vocabulary_is_trained_once_and_then_read(tmp_path, sample):
    made = open_vocabulary(tmp_path / "tokenizer.json", [sample], 600)
    reopened = open_vocabulary(tmp_path / "tokenizer.json", ["nothing"], 600)
    assert made.get_vocab() == reopened.get_vocab()
    assert [made.token_to_id(t) for t in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")] == [PAD, CLS, SEP, MASK]
    assert 400 < made.get_vocab_size() <= 600


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
def test_positions_reach_the_embedding_and_padding_does_not(positions):
    model = BUILDERS[positions](SHAPE, 3).eval()
    with torch.no_grad():  # fresh weights are too small for attention to prefer anything
        for parameter in model.parameters():
            parameter.mul_(10)
    one, other = torch.tensor([[2, 7, 8, 9, 3]]), torch.tensor([[2, 9, 8, 7, 3]])
    assert not torch.allclose(embed(model, one), embed(model, other), atol=1e-4)
    same_vectors(embed(model, one), embed(model, torch.tensor([[2, 7, 8, 9, 3, 0, 0]])))


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


def test_the_recipe_is_readable():
    recipe = load_recipe(ROOT / "experiments" / "mini.json")
    assert recipe.name == "mini"
    assert max(recipe.lengths) <= recipe.shape.trained_len
    assert recipe.warmup_steps <= recipe.first_steps < recipe.steps - recipe.decay_steps
