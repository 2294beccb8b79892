"""Extended models train after they encoded: nothing that inference cached may stand in autograd's way."""

import copy
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

import mteb_longembed
from mteb_longembed.encoders.positions import ABSOLUTE, ROTARY, Positions
from mteb_longembed.encoders.strategies import STRATEGIES
from tests import tiny
from tests.encoders.test_rotary import GQA

LO, LT = tiny.TRAINED, 4 * tiny.TRAINED
TEXTS = [tiny.text(n, seed) for seed in (0, 1) for n in (5, LO, LO + 1, 2 * LO + 3)]
#: positions -> one model with them
MODELS = {ROTARY: ("qwen3", GQA), ABSOLUTE: ("bert", {})}
#: Strategies that act in different places; with the others the same code runs.
USUAL = ("none", "pcw", "pi", "ntk", "se")
CELLS = [
    pytest.param(family, key, id=f"{family.name}-{key}", marks=() if key in USUAL else pytest.mark.long)
    for family in MODELS
    for key, kind in STRATEGIES.items()
    if family.fits(kind)
]


def extended(family: Positions, key: str, folder: Path) -> SentenceTransformer:
    model_type, config = MODELS[family]
    base = tiny.sentence_transformer(model_type, folder, **config, name="local/tiny")
    return mteb_longembed.extend(base, key, LO if key == "none" else LT, LO)


def gradients(model: SentenceTransformer) -> torch.Tensor:
    model.zero_grad()
    model(model.preprocess(TEXTS))["sentence_embedding"].pow(3).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("family", "key"), CELLS)
def test_gradients_after_encoding_are_those_before(family, key, tmp_path):
    model = extended(family, key, tmp_path)
    fresh = copy.deepcopy(model)
    model.encode(TEXTS)
    assert torch.equal(gradients(model), gradients(fresh))


def test_trainer_evaluates_between_steps_and_goes_on(tmp_path):
    model = extended(ROTARY, "se", tmp_path)
    evaluator = EmbeddingSimilarityEvaluator(TEXTS[:4], TEXTS[4:], [0.1, 0.4, 0.2, 0.9])
    evaluator(model)
    original = {name: p.detach().clone() for name, p in model.named_parameters()}
    pairs = {"anchor": TEXTS[:4], "positive": TEXTS[4:]}
    arguments = Arguments(
        output_dir=str(tmp_path / "out"), max_steps=3, per_device_train_batch_size=2, learning_rate=1e-3,
        eval_strategy="steps", eval_steps=1, save_strategy="no", report_to="none", use_cpu=True,
        logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(pairs),
        loss=MultipleNegativesRankingLoss(model), evaluator=evaluator,
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 3
    assert len([entry for entry in trainer.state.log_history if "eval_spearman_cosine" in entry]) >= 3
    assert any(not torch.equal(p, original[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("key", ["pi", "ntk", "rp"])
def test_rows_of_long_documents_follow_the_training_of_the_bases_rows(key, tmp_path):
    model = extended(ABSOLUTE, key, tmp_path)
    text = tiny.text(2 * LO + 3)
    before = model.encode(text)
    vector = model(model.preprocess([text]))["sentence_embedding"]
    (vector * torch.linspace(-1, 1, vector.shape[1])).sum().backward()
    rows = model[0].table.weight
    assert rows.grad.abs().max() > 1e-4
    with torch.no_grad():
        rows += torch.linspace(0, 1, rows.shape[1])
    after = model.encode(text)
    model.save_pretrained(str(tmp_path / "saved"))
    loaded = mteb_longembed.load(tmp_path / "saved", device="cpu")
    assert abs(after - before).max() > 1e-3
    assert abs(loaded.encode(text) - after).max() < 1e-6
