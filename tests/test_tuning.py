"""Position tuning: the loss falls, and only the added rows move."""

import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments

import mteb_longembed as longembed
from mteb_longembed.errors import IncompatibleError, InputError
from tests.tiny import TRAINED, sentence_transformer, text

TARGET = 4 * TRAINED


def pairs(n: int = 12) -> Dataset:
    anchors = [text(6, i, words=400) for i in range(n)]
    positives = [text(12, 100 + i, words=400) for i in range(n)]
    return Dataset.from_dict({"anchor": anchors, "positive": positives})


@pytest.fixture
def base(tmp_path):
    return sentence_transformer("bert", tmp_path / "base", name="test/bert")


@pytest.mark.parametrize(("strategy", "step"), [("pi", 4), ("rp", 1)])
def test_the_loss_falls_and_only_the_added_rows_move(tmp_path, base, strategy, step) -> None:
    model = longembed.extend(base, strategy, TARGET)
    table = model[0].table
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = torch.cat([table.weight, table.long]).detach().clone()
    short, long = [text(TRAINED), text(5)], [text(TARGET)]
    embeddings, of_long = model.encode(short), model.encode(long)
    losses: list[float] = []

    from transformers import TrainerCallback

    class Noting(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            losses.extend([logs["loss"]] if "loss" in logs else [])

    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path / "out"), per_device_train_batch_size=12, learning_rate=0.05, max_steps=30, logging_steps=1,
        save_strategy="no", report_to="none", use_cpu=True, weight_decay=0.5,
    )  # fmt: skip
    tuned = longembed.tune(model, pairs(), arguments, callbacks=[Noting()])
    after = tuned.state_dict()
    assert after.keys() == before.keys()
    (changed,) = [name for name in before if before[name].shape != after[name].shape]
    assert changed.endswith("position_embeddings.weight")
    assert all(torch.equal(before[name], after[name]) for name in before if name != changed)
    moved = (rows != after[changed]).any(1)
    assert not moved[:TRAINED].any()  # of short inputs
    assert not moved[TRAINED:][torch.arange(TRAINED) * step].any() and moved.float().mean() > 0.5
    assert all(parameter.requires_grad for parameter in tuned.parameters())
    assert (model.encode(short) == embeddings).all() and (model.encode(long) != of_long).any()
    assert sum(losses[-5:]) < sum(losses[:5])
    # trained rows are saved, and cannot be computed from the base's
    tuned.save_pretrained(str(tmp_path / "tuned"))
    saved = longembed.load(tmp_path / "tuned", device="cpu")
    for texts in (short, long):
        assert abs(saved.encode(texts) - tuned.encode(texts)).max() < 1e-6


def test_what_has_no_added_rows_is_refused(base) -> None:
    with pytest.raises(InputError, match="tuning needs an extended model"):
        longembed.tune(base, pairs())
    with pytest.raises(
        InputError, match=r"with one vector for each document, .* got a LongMultiVectorEncoder"
    ):
        longembed.tune(longembed.extend(base, "pi", TARGET, vectors=8), pairs())
    message = "tuning trains only rows that pi or rp has added .*, got gp"
    with pytest.raises(IncompatibleError, match=message):
        longembed.tune(longembed.extend(base, "gp", TARGET), pairs())
    with pytest.raises(InputError, match="the data must have anchor and positive, got anchor"):
        longembed.tune(longembed.extend(base, "pi", TARGET), pairs().remove_columns("positive"))
