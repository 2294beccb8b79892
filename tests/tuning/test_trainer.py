import math

import numpy as np
import pytest
import torch
from datasets import Dataset

from mteb_longembed.encoders.extend import extend, load
from mteb_longembed.errors import DataError, IncompatibleError, InputError
from mteb_longembed.tuning import trainer as trainer_module
from mteb_longembed.tuning.settings import TuningSettings
from mteb_longembed.tuning.trainer import last_complete, tune
from tests.limits import same_vectors
from tests.tiny import TRAINED, sentence_transformer, text, transformer

TARGET = 4 * TRAINED
SMALL = {
    "batch_size": 4, "mini_batch_size": 2, "n_negatives": 2, "max_len": TRAINED, "warmup_steps": 0, "lr": 0.05
}  # fmt: skip


def pairs(n=12, **extra):
    anchors, positives = [text(6, seed=i) for i in range(n)], [text(12, seed=100 + i) for i in range(n)]
    return Dataset.from_dict({"anchor": anchors, "positive": positives, **extra})


@pytest.fixture
def base(tmp_path):
    return sentence_transformer("bert", tmp_path / "base", name="test/bert")


@pytest.mark.parametrize("strategy", ["pi", "rp"])
def test_only_new_rows_change_and_short_inputs_keep_their_embeddings(tmp_path, base, strategy):
    extended = extend(base, strategy, TARGET)
    old_state = {name: value.clone() for name, value in extended.state_dict().items()}
    tuned = tune(extended, pairs(), tmp_path / "out", max_steps=3, **SMALL)
    new_state = tuned.state_dict()
    assert new_state.keys() == old_state.keys()
    assert all(torch.equal(old_state[name], value) for name, value in extended.state_dict().items())
    changed = [name for name in old_state if not torch.equal(old_state[name], new_state[name])]
    assert [name.endswith("position_embeddings.weight") for name in changed] == [True]
    rows_changed = (old_state[changed[0]] != new_state[changed[0]]).any(1)
    original = torch.arange(TRAINED) * (4 if strategy == "pi" else 1)
    assert not rows_changed[original].any()
    # what stays as it was among the new rows was reached by no document in three steps
    assert rows_changed.float().mean() > 0.5
    short, long = [text(TRAINED), text(5)], [text(TARGET)]
    assert np.array_equal(extended.encode(short), tuned.encode(short))
    assert not np.allclose(extended.encode(long), tuned.encode(long), atol=1e-4)


def test_a_tuned_folder_loads_and_embeds_the_same(tmp_path, base):
    extended = extend(base, "pi", TARGET)
    tuned = tune(extended, pairs(), tmp_path / "out", max_steps=2, **SMALL)
    with pytest.raises(InputError, match="must not have a model yet"):
        tune(extended, pairs(), tmp_path / "out", max_steps=2, **SMALL)
    reloaded = load(tmp_path / "out")
    texts = [text(5), text(TRAINED), text(50)]
    same_vectors(tuned.encode(texts), reloaded.encode(texts))
    assert np.allclose(reloaded.encode([text(9)]), base.encode([text(9)]), atol=1e-6)


def test_a_run_killed_between_checkpoints_ends_as_if_it_had_not_been(tmp_path, base, monkeypatch):
    extended = extend(base, "pi", TARGET)
    settings = dict(SMALL, max_steps=6, save_steps=2)
    full = tune(extended, pairs(), tmp_path / "whole", **settings)

    class Killed(Exception):
        pass

    original = trainer_module.RowTrainer.training_step

    def dying(self, *args, **kwargs):
        if self.state.global_step == 3:
            raise Killed
        return original(self, *args, **kwargs)

    monkeypatch.setattr(trainer_module.RowTrainer, "training_step", dying)
    with pytest.raises(Killed):
        tune(extended, pairs(), tmp_path / "cut", **settings)
    monkeypatch.setattr(trainer_module.RowTrainer, "training_step", original)
    assert last_complete(tmp_path / "cut").name == "checkpoint-2"
    # half a checkpoint, as a kill while writing leaves it, is passed over
    (tmp_path / "cut/checkpoints/checkpoint-4").mkdir()
    (tmp_path / "cut/checkpoints/checkpoint-4/trainer_state.json").write_text("{}")
    resumed = tune(extended, pairs(), tmp_path / "cut", **settings)
    for name, value in full.state_dict().items():
        assert torch.allclose(value, resumed.state_dict()[name], atol=1e-6), name


def test_other_settings_do_not_resume(tmp_path, base, monkeypatch):
    extended = extend(base, "pi", TARGET)
    monkeypatch.setattr(trainer_module.RowTrainer, "train", lambda self, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tune(extended, pairs(), tmp_path / "out", max_steps=1, **SMALL)
    with pytest.raises(InputError, match=r"other settings \(lr 0.05 before and 0.01 now\)"):
        tune(extended, pairs(), tmp_path / "out", max_steps=1, **dict(SMALL, lr=0.01))
    with torch.no_grad():
        extended[0].model.embeddings.word_embeddings.weight.mul_(1.1)
    with pytest.raises(InputError, match=r"other settings \(model .* before and 'local/"):
        tune(extended, pairs(), tmp_path / "out", max_steps=1, **SMALL)
    (tmp_path / "out/checkpoints/settings.json").write_text("{")
    with pytest.raises(DataError, match=r"settings.json cannot be read, .* Give another folder"):
        tune(extended, pairs(), tmp_path / "out", max_steps=1, **SMALL)


def test_a_model_is_tuned_on_the_device_that_is_asked_for(tmp_path, base, monkeypatch):
    devices = []
    monkeypatch.setattr(
        trainer_module, "isolate_rows", lambda model: devices.append(model.device.type) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        tune(extend(base, "pi", TARGET), pairs(), tmp_path / "out", device="meta", max_steps=1, **SMALL)
    assert devices == ["meta"]


def test_scores_change_what_is_learned(tmp_path, base):
    extended = extend(base, "pi", TARGET)
    negatives = {"negative_1": [text(12, seed=200 + i) for i in range(12)]}
    rows = []
    for k, scores in enumerate(([[9.0, 0.0]] * 12, [[0.0, 9.0]] * 12)):
        data = pairs(12, **negatives, scores=scores)
        tuned = tune(extended, data, tmp_path / str(k), max_steps=2, **SMALL)
        rows.append(tuned[0].model.embeddings.position_embeddings.weight)
    assert not torch.allclose(*rows, atol=1e-3)


def test_gradient_caching_changes_nothing(tmp_path, base, monkeypatch):
    # plain SGD: Adam would turn rounding noise in tiny gradients into whole steps
    def sgd(self, *args, **kwargs):
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=0.1)
        return self.optimizer

    monkeypatch.setattr(trainer_module.RowTrainer, "create_optimizer", sgd)
    for module in base.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    extended = extend(base, "pi", TARGET)
    original = extended[0].model.embeddings.position_embeddings.weight
    rows = []
    for k in (1, 4):
        tuned = tune(extended, pairs(), tmp_path / str(k), max_steps=2, **dict(SMALL, mini_batch_size=k))
        rows.append(tuned[0].model.embeddings.position_embeddings.weight - original)
    assert rows[0].abs().max() > 1e-3
    assert torch.allclose(*rows, atol=1e-5)


def test_a_loss_that_is_no_number_stops_and_keeps_the_checkpoints(tmp_path, base, monkeypatch):
    extended = extend(base, "pi", TARGET)
    original = trainer_module.SentenceTransformerTrainer.compute_loss
    calls = []

    def poisoned(self, *args, **kwargs):
        calls.append(1)
        return original(self, *args, **kwargs) * (math.nan if len(calls) == 3 else 1)

    monkeypatch.setattr(trainer_module.SentenceTransformerTrainer, "compute_loss", poisoned)
    with pytest.raises(InputError, match="the loss must stay a finite number, got nan at step 3: use"):
        tune(extended, pairs(), tmp_path / "out", max_steps=4, save_steps=1, **SMALL)
    assert last_complete(tmp_path / "out").name == "checkpoint-2"


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("bert+pi@16", InputError, "must be above the trained length of 16 tokens"),
        ("bert+gp@64", IncompatibleError, "trains only rows that pi or rp has added, got gp"),
        ("bert+none", IncompatibleError, "trains only rows that pi or rp has added, got none"),
        ("bert+pi@64:short=scale", InputError, "short must be keep"),
        ("bert+pi@64:dtype=bf16", InputError, "leave out dtype"),
        ("modernbert+pi@64", IncompatibleError, r"only models with absolute positions .* no table of"),
    ],
)
def test_names_that_cannot_be_tuned_are_refused_before_weights_load(tmp_path, monkeypatch, name, error, why):
    kind = name.partition("+")[0]
    more = {"cls_token_id": 0, "sep_token_id": 2, "global_attn_every_n_layers": 1} if kind != "bert" else {}
    transformer(kind, tmp_path / kind, **more)
    monkeypatch.setattr(trainer_module, "build", lambda *a, **k: pytest.fail("weights were loaded"))
    with pytest.raises(error, match=why):
        tune(f"{tmp_path}/{name}", pairs(), tmp_path / "out", **SMALL)


def test_a_model_nobody_extended_and_documents_beyond_the_trained_length_are_refused(tmp_path, base):
    with pytest.raises(InputError, match="needs an extended model"):
        tune(base, pairs(), tmp_path / "out", **SMALL)
    with pytest.raises(InputError, match="max_len must be at most the trained length of 16 tokens, got 17"):
        tune(extend(base, "pi", TARGET), pairs(), tmp_path / "out", **dict(SMALL, max_len=17))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lr", 0, "^lr must be above 0, got 0"),
        ("epochs", float("nan"), "^epochs must be above 0, got nan"),
        ("batch_size", -1, "^batch_size must be above 0, got -1"),
        ("warmup_steps", -1, "^warmup_steps must be at least 0, got -1"),
        ("n_negatives", -2, "^n_negatives must be at least 0, got -2"),
    ],
)
def test_a_setting_that_breaks_its_rule_gets_one_sentence(name, value, message) -> None:
    with pytest.raises(InputError, match=message):
        TuningSettings(**{name: value})
