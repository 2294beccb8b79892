from __future__ import annotations

import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.tuning.settings import TuningSettings


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


def test_defaults_are_the_papers() -> None:
    settings = TuningSettings()
    assert (settings.epochs, settings.batch_size, settings.lr, settings.temperature) == (3, 512, 5e-4, 0.01)
