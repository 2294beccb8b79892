from __future__ import annotations

import argparse
import inspect

from mteb_longembed.commands import tune as cli
from mteb_longembed.tuning import trainer


def parser():
    out = argparse.ArgumentParser()
    cli.add_arguments(out)
    return out


def test_every_setting_of_the_function_is_an_option_with_the_same_default():
    parameters = inspect.signature(trainer.tune).parameters
    assert {*cli.OPTIONS, *cli.SWITCHES} == parameters.keys() - {"model", "data", "out"}
    for name, (kind, text) in cli.OPTIONS.items():
        default = parameters[name].default
        if default is not None:
            assert f"(default: {default:g})" in text, name
            assert kind is float or isinstance(default, kind), name


def test_only_given_options_reach_the_function(monkeypatch, tmp_path, capsys):
    seen = {}
    monkeypatch.setattr(trainer, "tune", lambda *args, **kwargs: seen.update(args=args, kwargs=kwargs))
    line = ["e5-base+pi@4096", "--data", "d.jsonl", "--out", str(tmp_path), "--lr", "1e-3", "--bf16"]
    assert cli.main(parser().parse_args(line)) == 0
    assert seen == {"args": ("e5-base+pi@4096", "d.jsonl", tmp_path), "kwargs": {"lr": 0.001, "bf16": True}}
    assert f"mteb run -m {tmp_path}" in capsys.readouterr().out
