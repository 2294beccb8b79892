from __future__ import annotations

import argparse
from dataclasses import fields

from mteb_longembed.commands import tune as cli
from mteb_longembed.tuning import trainer
from mteb_longembed.tuning.settings import TuningSettings


def parser():
    out = argparse.ArgumentParser()
    cli.add_arguments(out)
    return out


def test_every_setting_is_an_option_whose_help_says_its_default():
    options = {action.dest: action for action in parser()._actions}
    for each in fields(TuningSettings):
        assert each.name in options, each.name
        if each.default is not None:
            assert f"(default: {each.default:g})" in options[each.name].help, each.name


def test_only_given_options_reach_the_function(monkeypatch, tmp_path, capsys):
    seen = {}
    monkeypatch.setattr(trainer, "tune", lambda *args, **kwargs: seen.update(args=args, kwargs=kwargs))
    line = [
        "e5-base+pi@4096",
        "--data",
        "d.jsonl",
        "--output-folder",
        str(tmp_path),
        "--lr",
        "1e-3",
        "--bf16",
    ]
    assert cli.main(parser().parse_args(line)) == 0
    asked = {"device": None, "trust_remote_code": False}
    assert seen == {
        "args": ("e5-base+pi@4096", "d.jsonl", tmp_path),
        "kwargs": {**asked, "lr": 0.001, "bf16": True},
    }
    assert f"mteb run -m {tmp_path}" in capsys.readouterr().out
