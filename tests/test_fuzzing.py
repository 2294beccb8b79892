"""Fuzzing: damaged input from a user or a disk gives a result or one of our errors, never another exception."""

import copy
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mteb_longembed as longembed
from mteb_longembed.data.check import read_queries
from mteb_longembed.encoders.build import load_resolved
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.resolved import resolve
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from tests import tiny

#: Cases of each target. The nightly run draws new ones (`--hypothesis-profile new-cases`).
CASES = 20

# no large numbers: a base with 10^9 layers or tokens is valid, but takes far too long
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.floats(-2, 70) | st.sampled_from([float("nan"), float("inf")]),
    st.text(max_size=8),
    st.sampled_from(
        ["\ud800", "\x00", "../..", "bert", "float32", "sentence_transformers.models.Pooling", "é" * 300]
    ),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
DEEP = "[" * 200_000 + "]" * 200_000


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(part for key, item in items for part in paths_of(item, (*path, key)))]


@st.composite
def damaged_json(draw: st.DrawFn, good: Any) -> str:
    """A JSON text with one to three parts replaced, left out or added; or a text that is cut off or not JSON."""
    kind = draw(st.sampled_from(["parts"] * 7 + ["cut", "other", "deep"]))
    if kind == "deep":
        return draw(st.sampled_from([DEEP, '{"a":' * 100_000]))
    if kind == "other":
        return json.dumps(draw(values))
    if kind == "cut":
        text = json.dumps(good)
        return text[: draw(st.integers(0, len(text)))]
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(paths_of(value)[1:] or [("x",)]))
        owner = value
        for key in path:
            owner = owner[key]
        if isinstance(owner, dict) and draw(st.booleans()) and last in owner:
            del owner[last]
        elif isinstance(owner, (dict, list)):
            owner[last] = draw(values)
    return json.dumps(value)


class Targets:
    """The targets of fuzzing: for each a strategy that draws cases, and a function that runs a case.

    Args:
        work: an empty folder.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.base = work / "base" / "model"
        more = {"dense": True, "prompts": {"query": "q: "}, "name": "tiny/bert"}
        made = tiny.sentence_transformer("bert", work / "base", **more)
        self.saved = work / "saved"
        longembed.extend(made, "pcw", target_len=64).save_pretrained(str(self.saved), create_model_card=False)
        self.all: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], object]]] = {
            "names": (self.names(), lambda text: resolve(Method.parse_model(text))),
            "a base's files": (self.files(self.base), lambda file: self.load(self.base, *file)),
            "a saved model's files": (self.files(self.saved), lambda file: self.load(self.saved, *file)),
            "JSON lines": (self.lines(), self.read_lines),
        }

    def names(self) -> st.SearchStrategy[str]:
        words = "+ @ : , = 4k 512 -1 99999999999999999999 1e9 nan logn off on sigma factor g w dtype bf16 revision"
        words += " trained_len trust_remote_code short keep / .. é mini-rope e5-base-4k org/x"
        odd = ["", " ", "\x00", "\ud800"]
        pieces = st.sampled_from([str(self.base), *STRATEGIES, *words.split(" "), *odd])
        pair = st.tuples(pieces, pieces | st.text(max_size=4)).map("=".join)
        targets, pairs = st.sampled_from(["", "@4k", "@"]), st.lists(pair, max_size=3).map(",".join)
        shaped = st.tuples(pieces, st.just("+"), pieces, targets, st.just(":"), pairs)
        return st.one_of(
            st.text(max_size=30), st.lists(pieces, max_size=8).map("".join), shaped.map("".join),
            st.sampled_from(["x" * 5000, "+" * 900, "a/b+" * 200, "mini-rope+pi@" + "9" * 900]),
        )  # fmt: skip

    def files(self, folder: Path) -> st.SearchStrategy[tuple[str, str]]:
        untouched = ("tokenizer.json", "model.safetensors.index.json")
        chosen = [file for file in sorted(folder.rglob("*.json")) if file.name not in untouched]

        def of(name: str) -> st.SearchStrategy[tuple[str, str]]:
            return st.tuples(st.just(name), damaged_json(json.loads((folder / name).read_text())))

        return st.sampled_from([file.relative_to(folder).as_posix() for file in chosen]).flatmap(of)

    def load(self, good: Path, name: str, text: str) -> object:
        """Resolve and load a copy of a folder in which one file has another text."""
        folder = self.work / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(good, folder, copy_function=os.link)
        (folder / name).unlink()
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        given_name = Method(str(folder)) if good == self.saved else Method.parse_model(f"{folder}+pi")
        return load_resolved(resolve(given_name), device="cpu")

    def lines(self) -> st.SearchStrategy[bytes]:
        good = {"qid": "q1", "text": "one"}
        huge = st.just('{"qid": ' + "9" * 5000 + "}")
        text = st.one_of(st.just(json.dumps(good)), damaged_json(good), st.text(max_size=20), huge)
        line = text.map(lambda text: text.encode("utf-8", "surrogatepass"))
        return st.one_of(
            st.lists(line | st.binary(max_size=20), max_size=4).map(b"\n".join), st.just(b"\x1f\x8b"),
            st.binary(max_size=30).map(lambda part: b"\x1f\x8b" + part),
        )  # fmt: skip

    def read_lines(self, content: bytes) -> object:
        path = self.work / "lines.jsonl"
        path.write_bytes(content)
        return read_queries(path)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    return Targets(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("name", ["names", "a base's files", "a saved model's files", "JSON lines"])
def test_structures_damaged_at_random_give_a_result_or_one_of_our_errors(targets: Targets, name: str) -> None:
    cases, work = targets.all[name]
    messages: list[str] = []

    @settings(max_examples=CASES, database=None, suppress_health_check=list(HealthCheck))
    @given(cases)
    def run(case: Any) -> None:
        with warnings.catch_warnings(action="ignore"):
            try:
                work(case)
            except LongEmbedError as error:
                messages.append(str(error))
                assert 0 < len(messages[-1]) < 2500 and "\n" not in messages[-1]

    run()
    assert messages


@pytest.mark.parametrize("text", ["null", '[{"type": 3}]', '[{"type": "x"}]', "nope", DEEP, "[]"])
@pytest.mark.parametrize("saved", [False, True])
def test_a_list_of_modules_that_is_none_is_told_in_one_sentence(targets: Targets, text, saved) -> None:
    good = targets.saved if saved else targets.base
    with pytest.raises(LongEmbedError):
        targets.load(good, "modules.json", text)


def test_a_folder_that_is_no_model_is_not_read_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "walk", lambda folder, **_: pytest.fail("the whole disk is read"))
    for name in ("/+pi", "..+pi"):
        with pytest.raises(ModelError, match=r"has no config\.json"):
            longembed.load(name)


def test_weights_that_do_not_load_are_told_in_one_sentence(tmp_path: Path) -> None:
    folder = tiny.saved("bert", tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"cannot be read as safetensors|cannot be loaded"):
        longembed.load(f"{folder}+pi", device="cpu")
    weights.unlink()
    torch.save({"x": Path("an object that torch refuses to unpickle")}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"cannot be loaded: \w+Error: ") as error:
        longembed.load(f"{folder}+pi", device="cpu")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("other", [None, b"bytes"])
def test_an_input_that_is_no_text_is_told_with_its_place(targets: Targets, other: object) -> None:
    model = longembed.load(targets.saved, device="cpu")
    with pytest.raises(InputError, match=r"all inputs of one call must be texts .*, got a \w+ at index 1"):
        model.encode(["a", other])
