"""Under the stock `mteb` command our errors are one sentence."""

import functools
import sys
from collections.abc import Callable

import mteb
import pytest
from mteb.cli import main as stock_main

import mteb_longembed as longembed
from mteb_longembed.errors import UnknownNameError
from mteb_longembed.plugin.replacements import main_in_one_sentence


def raising(error: BaseException):
    def main() -> None:
        raise error

    return functools.partial(main_in_one_sentence, main)


def test_an_interrupted_run_says_that_the_same_command_goes_on(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["mteb", "run", "-m", "bm25"])
    with pytest.raises(SystemExit) as stopped:
        raising(KeyboardInterrupt())()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.endswith("the same command continues from there.\n")


@pytest.mark.parametrize("error", [ValueError("mteb's own"), SystemExit(3), KeyboardInterrupt()])
def test_other_errors_and_interrupts_of_other_commands_pass(error, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["mteb", "available-tasks"])
    with pytest.raises(type(error)) as raised:
        raising(error)()
    assert raised.value is error and capsys.readouterr().err == ""


def test_the_stock_command_names_what_is_misspelt_without_a_traceback(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mteb", "run", "-m", "e5-base+nkt", "-t", "LongEmbedPasskey"])
    hook = sys.excepthook
    with pytest.raises(SystemExit) as stopped:
        stock_main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and sys.excepthook is hook and "Traceback" not in said
    assert "mteb-longembed: unknown strategy 'nkt': did you mean 'ntk'?" in said


@pytest.mark.parametrize(
    ("name", "meant"),
    [("mini-apee", "mini-ape"), ("MINI-APE", "mini-ape"), ("mini_ape", "mini-ape"), ("BM25", "bm25")],
)
def test_a_misspelt_name_gets_the_nearest_one_at_every_door(
    name, meant, tmp_path, monkeypatch, capsys
) -> None:
    message = rf"^unknown base .*{name!r}: did you mean {meant!r}\?"
    doors: list[Callable[[], object]] = [
        lambda: mteb.get_model(name),
        lambda: mteb.get_model_meta(name, fetch_from_hf=True),
        lambda: longembed.search(name),
        lambda: longembed.search(f"{name}+lexical"),
        lambda: longembed.load(name),
        lambda: longembed.extend(name),
        lambda: longembed.adapt(name, ["a text"]),
        lambda: longembed.export(name, tmp_path / "out"),
        lambda: longembed.compare(name, tasks=["LongEmbedPasskey"], output_folder=tmp_path, show=False),
    ]
    for door in doors:
        with pytest.raises(UnknownNameError, match=message):
            door()
    with pytest.raises(KeyError, match=f"Did you mean {meant!r}"):
        mteb.get_model_meta(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mteb", "run", "-m", name, "-t", "LongEmbedPasskey"])
    with pytest.raises(SystemExit):
        stock_main()
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


def test_a_name_without_an_organisation_is_one_of_sentence_transformers() -> None:
    with_organisation = mteb.get_model_meta("sentence-transformers/all-MiniLM-L6-v2")
    assert mteb.get_model_meta("all-MiniLM-L6-v2", fetch_from_hf=True) == with_organisation


@pytest.mark.parametrize("name", ["all-tiny", "all-tiny+pi@1k"])
def test_models_of_sentence_transformers_need_no_organisation(name, online, base_folder) -> None:
    files = {
        path.relative_to(base_folder).as_posix(): path for path in base_folder.rglob("*") if path.is_file()
    }
    online.add("sentence-transformers/all-tiny", {**files, "README.md": "---\nlicense: mit\n---\n"})
    searcher = longembed.search(name, device="cpu")
    assert searcher.scorer.identity.base == "sentence-transformers/all-tiny"
    model = longembed.load(name, device="cpu")
    assert model.model_card_data.model_name.startswith("sentence-transformers/all-tiny+")
    assert (
        longembed.extend("all-tiny", device="cpu").model_card_data.base_model
        == "sentence-transformers/all-tiny"
    )
