from dataclasses import fields

from mteb_longembed import cli
from mteb_longembed.tuning import trainer
from mteb_longembed.tuning.settings import TuningSettings


def test_every_setting_is_an_option_whose_help_says_its_default():
    options = {action.dest: action for action in cli._parsers("tune")[1]._actions}
    for setting in fields(TuningSettings):
        assert setting.name in options, setting.name
        if setting.default is not None:
            assert f"(default: {setting.default:g})" in options[setting.name].help, setting.name


def test_only_given_options_reach_the_function(monkeypatch, tmp_path, capsys):
    seen = {}
    monkeypatch.setattr(trainer, "tune", lambda **kwargs: seen.update(kwargs))
    line = ["tune", "e5-base+pi@4096", "--data", "d.jsonl", "--output-folder", str(tmp_path)]
    assert cli.main([*line, "--lr", "1e-3", "--bf16"]) == 0
    asked = {"model": "e5-base+pi@4096", "data": "d.jsonl", "out": tmp_path}
    assert seen == {**asked, "device": None, "trust_remote_code": False, "lr": 0.001, "bf16": True}
    assert f"mteb run -m {tmp_path}" in capsys.readouterr().out
