"""A name is resolved once, and the canonical name follows values."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.base import Base, base_of_loaded, read_base
from mteb_longembed.encoders.load import extend, load
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.repository import Files
from mteb_longembed.encoders.resolved import Resolved, fitted, resolve
from mteb_longembed.encoders.strategies import ALGORITHM, STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError, UnknownNameError
from mteb_longembed.names import is_extended_name
from tests import tiny


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A base with a table and one that rotates: each strategy fits one of them at least."""
    kinds = {"bert": {}, "mistral": {"num_key_value_heads": 2, "sliding_window": None}}
    return {kind: tiny.saved(kind, tmp_path_factory.mktemp(kind), **more) for kind, more in kinds.items()}


def base_for(folders: dict[str, Path], key: str) -> str:
    return str(folders["bert" if key == "ntk" else "mistral"])


def name_of(text: str) -> str:
    return str(resolve(Method.parse_model(text)).method)


@pytest.mark.parametrize(
    "same",
    [
        ["+se", "+se@128", "+se:g=9", "+se@128:g=9,w=2", "+se:w=2.0", "+se:logn=on", "+se:trained_len=16"],
        ["+ntk", "+ntk:factor=10", "+ntk:factor=10.0", "+ntk:factor=1e1", "+ntk:sigma=32,short=scale"],
        ["+pi", "+pi:dtype=fp32", "+pi:dtype=float32"],
        ["+yarn:factor=8", "+yarn"],
        ["+none", "+none@16", "+none:logn=off", "+none:trained_len=16"],
    ],
)
def test_the_name_follows_values_and_not_their_spelling(folders, same) -> None:
    assert len({name_of(f"{folders['mistral']}{tail}") for tail in same}) == 1


def test_what_differs_from_what_holds_without_it_is_in_the_name_sorted(folders) -> None:
    base = folders["mistral"]
    name = "local/model+ntk@128,factor=12.5,logn=off,short=keep"
    assert name_of(f"{base}+ntk:short=keep,logn=off,factor=12.5") == name
    assert name_of(f"{base}+ntk:dtype=bfloat16") == "local/model+ntk@128,dtype=bf16"
    assert name_of(f"{base}+ntk:trained_len=8") == "local/model+ntk@64,trained_len=8"
    assert name_of(f"{base}+se@64:g=9") == "local/model+se@64,g=9"
    assert name_of(f"{base}+se@64:g=5") == "local/model+se@64"


def test_a_parameter_without_effect_is_refused(folders) -> None:
    for family, parameter in (("mistral", "sigma=4"), ("bert", "short=keep"), ("bert", "factor=3")):
        with pytest.raises(IncompatibleError, match=rf"ntk's {parameter.split('=')[0]} has no effect on "):
            name_of(f"{folders[family]}+ntk:{parameter}")


@pytest.mark.parametrize(
    ("pooling", "similarity", "message"),
    [
        ("cls", None, r"^vectors=4 averages the tokens .* with cls pooling.*use pcw"),
        ("lasttoken", None, "with lasttoken pooling, not mean"),
        ("mean", "euclidean", "^several vectors are compared by cosine or dot"),
    ],
)
def test_files_tell_that_a_base_cannot_have_several_vectors(tmp_path, pooling, similarity, message) -> None:
    tiny.sentence_transformer("bert", tmp_path, pooling=pooling)
    if similarity:
        file = tmp_path / "model" / "config_sentence_transformers.json"
        file.write_text(file.read_text().replace('"cosine"', f'"{similarity}"'))
    with pytest.raises(IncompatibleError, match=message):
        resolve(Method.parse_model(f"{tmp_path / 'model'}+none:vectors=4"))
    if not similarity:
        name = f"{tmp_path / 'model'}+pcw:vectors=window"
        assert resolve(Method.parse_model(name)).vectors == "window"


@pytest.mark.parametrize(("key", "value"), [("fusion", "bm25"), ("weights", "sif")])
def test_what_changes_only_search_is_no_model(folders, key, value) -> None:
    message = rf"^{key} changes search and no model, got {key}={value}: .*mteb_longembed\.search\(NAME\)"
    with pytest.raises(InputError, match=message):
        load(f"{folders['bert']}+pcw:{key}={value}")
    with pytest.raises(InputError, match=message):
        extend(folders["bert"], "pcw", **{key: value})


VECTORS = "a whole number of at least 1 content token for each vector or window"
VALUES = {bool: st.booleans(), int: st.integers(1, 15), float: st.floats(0.25, 1e18)}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a parameter's type, within its bounds or not."""
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is Annotated:
        return VALUES[get_args(kind)[0]]
    return VALUES[kind] if kind in VALUES else st.one_of(*map(values, get_args(kind)))


@st.composite
def chosen(draw: Any) -> tuple[str, int, dict[str, Any]]:
    """A strategy, a target and some parameters of the right kinds."""
    key = draw(st.sampled_from(sorted(STRATEGIES)))
    params: dict[str, Any] = {}
    for name, kind in STRATEGIES[key].declared().items():
        if draw(st.booleans()):
            params[name] = draw(values(kind))
    return key, draw(st.integers(16, 400)), params


def try_resolve(folders: dict[str, Path], choice: tuple[str, int, dict[str, Any]]) -> Resolved:
    key, target, params = choice
    try:
        return resolve(Method(base_for(folders, key), key, target, params=params))
    except InputError:  # values that break a rule of the strategy
        assume(False)
        raise


@pytest.mark.filterwarnings("ignore:se with")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
@given(choice=chosen())
def test_a_canonical_name_resolves_to_itself_and_is_a_legal_folder_everywhere(folders, choice):
    first = try_resolve(folders, choice)
    base = base_for(folders, choice[0])
    second = resolve(Method.parse_model(str(first.method).replace(first.base.name, base)))
    assert (str(second.method), second.experiment) == (str(first.method), first.experiment)
    assert second.strategy == first.strategy
    assert not re.search(r'[<>:"|?*\\\x00-\x1f ]', str(first.method)) and is_extended_name(str(first.method))


def test_a_name_arguments_a_loaded_model_and_a_saved_folder_say_the_same(folders, tmp_path) -> None:
    folder = folders["mistral"]
    by_name = resolve(Method.parse_model(f"{folder}+se@64:g=7"))
    base = base_of_loaded(SentenceTransformer(str(folder), device="cpu"), "0" * 40)
    loaded = fitted(Method("", "se", 64, params={"g": 7}), base)
    assert (
        by_name.strategy == loaded.strategy
        and str(by_name.method) == str(loaded.method) == "local/model+se@64,g=7"
    )
    extend(folder, "se", 64, g=7, device="cpu").save_pretrained(str(tmp_path / "saved"))
    saved = resolve(Method(str(tmp_path / "saved")))
    assert (
        saved.base.saved_strategy
        and saved.strategy == by_name.strategy
        and str(saved.method) == "local/saved+se@64,g=7"
    )
    assert load(tmp_path / "saved", device="cpu").resolved == saved


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"strategy": "nkt"}, UnknownNameError, r"unknown strategy 'nkt': did you mean 'ntk'"),
        ({"params": {"sigma": 2}}, UnknownNameError, "unknown parameter of se 'sigma'"),
        ({"target_len": "long"}, InputError, "^target_len must be a whole number of at least 1 token"),
        ({"trained_len": 0}, InputError, "^trained_len must be a whole number .* got 0"),
        ({"vectors": "banana"}, InputError, f"^vectors must be {VECTORS}, got 'banana'"),
        ({"vectors": "window"}, IncompatibleError, "^vectors=window needs a strategy that cuts"),
        ({"dtype": "../../x"}, InputError, "^dtype must be one of fp32, fp16, bf16, got"),
        ({"trust_remote_code": "maybe"}, InputError, "^trust_remote_code must be on or off"),
    ],
)
def test_a_wrong_value_is_told_before_the_base_is_read(settings, error, message, monkeypatch) -> None:
    monkeypatch.setattr(Files, "open", lambda *a, **k: pytest.fail("the base was read"))
    with pytest.raises(error, match=message):
        resolve(Method("x", **{"strategy": "se", **settings}))


def test_a_base_is_read_once_and_again_when_a_file_of_a_module_or_the_weights_have_changed(tmp_path) -> None:
    base = tiny.saved("bert", tmp_path)

    def read() -> Base:
        return read_base(str(base), None, trust_remote_code=False)

    first = read()
    assert read() is first and first.pooling == "mean"
    revisions = {first.revision}
    pooling = base / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace('"mean"', '"cls"'))
    assert read().pooling == "cls"
    revisions.add(read().revision)
    weights = base / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # of the same size
    weights.write_bytes(content)
    revisions.add(read().revision)
    assert len(revisions) == 3


def test_a_revision_of_a_folder_is_refused(folders) -> None:
    with pytest.raises(InputError, match=r"^only a model on the hub has a revision to choose, got 'main'"):
        resolve(Method(str(folders["bert"]), "pi", revision="main"))
    with pytest.raises(InputError, match=r"^only a model on the hub has a revision"):
        resolve(Method.parse_model("mini-rope+pi:revision=main"))


def test_code_that_runs_is_part_of_name_and_revision(folders, tmp_path) -> None:
    folder = Path(shutil.copytree(folders["mistral"], tmp_path / "coded"))
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace("{", '{"auto_map": {"AutoModel": "own.Own"},', 1))
    (folder / "own.py").write_text("FIRST = 1\n")
    without = resolve(Method(str(folder), "pi"))
    with_code = resolve(Method(str(folder), "pi", trust_remote_code=True))
    assert str(with_code.method) == f"{without.method!s},trust_remote_code=on"
    assert with_code.base.revision != without.base.revision
    (folder / "own.py").write_text("SECOND = 2\n")
    changed = resolve(Method(str(folder), "pi", trust_remote_code=True))
    assert changed.base.revision != with_code.base.revision
    assert resolve(Method(str(folder), "pi")).base.revision == without.base.revision
    plain = resolve(Method(str(folders["mistral"]), "pi", trust_remote_code=True))
    assert str(plain.method) == "local/model+pi@128"


@pytest.mark.parametrize(
    ("alias", "revision"),
    [
        ("mini-ape", "7ffa4787f49ee3debf2e75116317b8a78eb05455"),
        ("mini-rope", "393fc76ac1a707865599df46c89cf52200388f8f"),
    ],
)
def test_the_models_that_ship_are_those_that_were_measured(alias: str, revision: str) -> None:
    assert resolve(Method.parse_model(f"{alias}+none")).base.revision == revision


def test_a_folder_beats_an_alias_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.saved("bert", tmp_path)
    folder.rename(tmp_path / "e5-base-4k")
    monkeypatch.chdir(tmp_path)
    model = load("e5-base-4k", device="cpu")
    assert model.model_card_data.model_name == "local/e5-base-4k+none@16"


def test_a_custom_strategy_has_its_code_in_the_experiment(folders, monkeypatch) -> None:
    def algorithm(code: str) -> str:
        own: dict[str, Any] = {
            "__name__": "own",
            "Strategy": Strategy,
            "dataclass": dataclass,
            "ClassVar": ClassVar,
        }
        exec(  # the file of a user
            "@dataclass(frozen=True, kw_only=True)\nclass Own(Strategy):\n    KEY: ClassVar[str] = 'own'\n"
            f"    def position_ids(self, p, n):\n        return {code}\n",
            own,
        )
        monkeypatch.setitem(STRATEGIES, "own", own["Own"])
        return resolve(Method(str(folders["bert"]), "own", 64)).experiment["algorithm"]

    assert resolve(Method(str(folders["bert"]), "pi", 64)).experiment["algorithm"] == ALGORITHM
    one, other = algorithm("p // 2"), algorithm("p // 4")
    assert one != other and one.startswith(f"{ALGORITHM}.") and other.startswith(f"{ALGORITHM}.")


def test_a_misspelt_preset_gets_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="unknown strategy 'hybird': did you mean 'hybrid'"):
        Method.parse_model("mini-ape+hybird")
