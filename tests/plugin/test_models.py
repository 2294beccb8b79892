"""What mteb finds in its own registries, with a tiny BERT served as intfloat/e5-base-v2."""

import configparser
import json
import pkgutil
import re
import sys
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import mteb
import pytest
from mteb.models import model_implementations
from mteb.models.get_model_meta import get_model_metas
from mteb.models.model_meta import ModelMeta
from sentence_transformers import SentenceTransformer

import mteb_longembed
from mteb_longembed.encoders import strategies
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import HubError, IncompatibleError, InputError, LongEmbedError
from mteb_longembed.plugin import register
from mteb_longembed.tasks import TASKS
from mteb_longembed.zoo import ZOO
from tests import tiny
from tests.limits import same_vectors
from tests.metas import full_name

REVISION = str(ZOO["e5-base"].revision)


# ---- tasks and benchmark -----------------------------------------------------------------------------------


def test_mteb_finds_our_tasks_and_benchmark_by_name_and_in_its_lists_and_keeps_its_own() -> None:
    names = [task.metadata.name for task in TASKS]
    # a list of all would make a thousand tasks
    meetings = {task.metadata.name for task in TASKS if "Spoken" in task.metadata.domains}
    listed = mteb.get_tasks(task_types=["Retrieval"], domains=["Spoken"])
    assert meetings and meetings <= {task.metadata.name for task in listed}
    assert [type(mteb.get_task(name)) for name in names] == list(TASKS)
    assert mteb.get_tasks(tasks=names[:1], eval_splits=["test_256"])[0].eval_splits == ["test_256"]
    benchmarks = [mteb.get_benchmark(name) for name in ("LongEmbed+", "NanoLongEmbed")]
    assert [task.metadata.name for benchmark in benchmarks for task in benchmark.tasks] == names
    assert {"LongEmbed+", "NanoLongEmbed"} < {benchmark.name for benchmark in mteb.get_benchmarks()}
    assert mteb.get_task("LEMBPasskeyRetrieval").__module__.startswith("mteb.")
    assert not {task.metadata.name for task in mteb.get_benchmark("LongEmbed").tasks} & set(names)


def test_registering_again_changes_nothing() -> None:
    def known() -> list:
        cache, described = mteb.ResultCache, ModelMeta.from_sentence_transformer_model.__func__
        changed = cache.save_to_cache, cache.get_cache_paths, mteb.AbsTask._save_task_predictions, described
        return [*changed, len(sys.modules["mteb.get_tasks"].TASK_LIST), mteb.get_model_meta]

    original = known()
    register()
    assert known() == original


# ---- models ------------------------------------------------------------------------------------------------


def test_mteb_own_entries_stay_as_they_are() -> None:
    registry = model_implementations.MODEL_REGISTRY
    assert len(list(registry)) == len(registry) == len(registry.items()) > 900
    assert registry["intfloat/e5-base-v2"] is registry.get("intfloat/e5-base-v2")
    assert mteb.get_model_meta("intfloat/e5-base-v2").revision == REVISION
    assert not any("+" in meta.name for meta in get_model_metas())
    assert registry.get("org/nothing") is None and registry.get("org/nothing", 3) == 3
    assert "org/nothing" not in registry
    with pytest.raises(KeyError):
        registry["org/nothing"]


def replaced() -> set[str]:
    """The functions and methods of mteb's that ours stand in for."""
    names = set()
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "mteb"]:
        for owner in (module, *(part for part in vars(module).values() if isinstance(part, type))):
            for name, part in vars(owner).items():
                function = getattr(part, "__func__", part)
                if isinstance(function, FunctionType) and hasattr(function, "before_longembed"):
                    names.add(name)
    return names


@pytest.mark.filterwarnings("ignore:The fill_missing parameter:DeprecationWarning")  # of mteb itself
def test_mteb_describes_a_stock_model_and_writes_its_results_as_without_us(base_folder) -> None:
    describe = "from_sentence_transformer_model"
    others = {"from_multi_vector_encoder_model", "from_sparse_encoder_model"}
    assert replaced() == {describe, *others, "get_model_meta", "get_model_metas", "_build_registry", "main"}
    stock = SentenceTransformer(str(base_folder), device="cpu")
    ours, theirs = getattr(ModelMeta, describe), getattr(ModelMeta, describe).__func__.before_longembed
    assert ours(stock).to_dict() == theirs(ModelMeta, stock).to_dict()


def test_the_description_of_an_extended_model(online) -> None:
    meta = mteb.get_model_meta("e5-base+ntk@1k:logn=off")
    assert (meta.name, meta.revision, meta.max_tokens) == ("intfloat/e5-base-v2", REVISION, 1024)
    experiment = {"strategy": "ntk", "target_len": 1024, "logn": False, "algorithm": ALGORITHM}
    assert meta.experiment_kwargs == experiment
    assert meta.loader_kwargs == {} and meta.use_instructions
    assert full_name(mteb.get_model_meta("e5-base")) == "intfloat/e5-base-v2+none@512"
    assert not any("safetensors" in request for request in online.requests), "weights were read"


def test_the_entry_points_that_we_declare_give_tasks_and_models(online) -> None:
    settings = configparser.ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    points = settings["options.entry_points"]
    named = {group: points[group].partition("=")[2].strip() for group in ("mteb.models", "mteb.tasks")}
    loaded = {group: pkgutil.resolve_name(name) for group, name in named.items()}
    assert loaded["mteb.tasks"] is TASKS
    find = model_implementations.MODEL_REGISTRY.get
    offered = loaded["mteb.models"]("e5-base+pi", None, find)
    assert offered.experiment_kwargs == mteb.get_model_meta("e5-base+pi").experiment_kwargs
    assert loaded["mteb.models"]("intfloat/e5-base-v2", None, find) is None
    assert loaded["mteb.models"]("org/missing", None, find, True) is None


def test_bm25_and_apis_are_mteb_own() -> None:
    assert mteb.get_model_meta("bm25") is mteb.get_model_meta("mteb/baseline-bm25s")
    assert mteb.get_model_meta("ada-002").name == "openai/text-embedding-ada-002"


@pytest.mark.parametrize("strategy", ["ntk", "pcw@32k"])
def test_an_api_cannot_be_extended(strategy: str) -> None:
    with pytest.raises(IncompatibleError, match=r"text-embedding-ada-002 runs behind an API.* mteb run -m"):
        mteb.get_model_meta(f"ada-002+{strategy}")


def test_a_local_folder_is_named_without_its_path(base_folder) -> None:
    meta = mteb.get_model_meta(f"{base_folder}+gp@1024")
    assert (meta.name, full_name(meta)) == ("local/model", "local/model+gp@1024")
    assert re.fullmatch("[0-9a-f]{40}", meta.revision)
    assert str(base_folder) not in json.dumps(meta.to_dict(), default=str)


def test_a_saved_model_is_found_by_its_folder(base_folder, tmp_path) -> None:
    model = mteb_longembed.extend(base_folder, "rp", 1024, device="cpu", logn=False)
    model.save_pretrained(str(tmp_path / "saved"))
    meta = mteb.get_model_meta(str(tmp_path / "saved"))
    assert (full_name(meta), meta.max_tokens) == ("local/saved+rp@1024,logn=off", 1024)
    assert meta.adapted_from == "local/model"
    loaded = mteb.get_model(str(tmp_path / "saved"), device="cpu")
    text = tiny.text(700)
    same_vectors(loaded.model.encode(text), model.encode(text))


def test_get_model_gives_the_model_that_load_gives(online) -> None:
    encoder = mteb.get_model("e5-base+pi@1k", device="cpu")
    model = mteb_longembed.load("e5-base+pi@1k", device="cpu")
    assert full_name(encoder.mteb_model_meta) == model.model_card_data.model_name
    assert encoder.mteb_model_meta.revision == model.model_card_data.base_model_revision
    assert encoder.model_prompts == {"query": "query: ", "document": "passage: "}
    same_vectors(encoder.model.encode(tiny.text(700)), model.encode(tiny.text(700)))


def test_an_option_that_a_model_does_not_have_is_told(online) -> None:
    for option in ({"batch": 8}, {"algorithm": "le2"}, {"trust_remote_code": True}):
        with pytest.raises(
            InputError, match=r"^what changes a model is part of its name, got \w+=.* beside "
        ):
            mteb.get_model("e5-base+rp@1k", device="cpu", **option)


def test_the_device_number_of_mteb_run_counts_accelerators(online) -> None:
    with pytest.raises(
        InputError, match=r"^--device must be the number of an accelerator, .* has \d, got 90"
    ):
        mteb.get_model("e5-base+rp@1k", device=90)


# ---- what goes wrong ---------------------------------------------------------------------------------------


def test_a_wrong_name_gets_one_sentence_from_mteb_itself(online) -> None:
    with pytest.raises(IncompatibleError, match=r"^se does not fit intfloat/e5-base-v2, .*"):
        mteb.get_model("e5-base+se")
    with pytest.raises(HubError, match=r"'org/missing'"):
        mteb.get_model("org/missing+ntk")


@pytest.mark.parametrize("path", ["get_tasks.TASK_LIST", "models.get_model_meta.get_model_meta", "cli.main"])
def test_a_name_or_a_module_that_mteb_no_longer_has_is_told_in_one_sentence(monkeypatch, path) -> None:
    owner, _, name = path.rpartition(".")
    message = r"^mteb 2\.[\d.]+ lacks what mteb-longembed .* needs to register \(.*%s.*\): install another"
    with monkeypatch.context() as patch:
        patch.delattr(sys.modules[f"mteb.{owner}"], name)
        with pytest.raises(LongEmbedError, match=message % name):
            register()
    monkeypatch.delitem(sys.modules, "mteb.get_tasks")
    with pytest.raises(LongEmbedError, match=message % "mteb.get_tasks"):
        register()


# ---- results -----------------------------------------------------------------------------------------------


def test_an_extended_model_never_reads_or_overwrites_the_base_or_an_older_algorithm(
    online, tmp_path, monkeypatch
) -> None:
    cache = mteb.ResultCache(tmp_path)
    task = mteb.get_task("LongEmbedPasskey", eval_splits=["test_256"])
    base = SentenceTransformer("intfloat/e5-base-v2", revision=REVISION, device="cpu")

    def run(model: Any) -> None:
        result = mteb.evaluate(model, task, cache=cache, show_progress_bar=False)
        assert (result.model_name, result.model_revision) == ("intfloat/e5-base-v2", REVISION)

    with warnings.catch_warnings(action="ignore"):
        base.model_card_data.set_base_model("intfloat/e5-base-v2", revision=REVISION)
        run(base)
        with monkeypatch.context() as patch:
            patch.setattr(strategies, "ALGORITHM", "le1")
            run(mteb_longembed.extend("e5-base", "rp", 1024, device="cpu"))
        files = {file: file.read_text() for file in (tmp_path / "results").rglob("*.json")}
        run(mteb_longembed.extend("e5-base", "rp", 1024, device="cpu"))
    assert {file: file.read_text() for file in files} == files
    experiments = [f"algorithm_{version}__strategy_rp__target_len_1024" for version in ("le1", ALGORITHM)]
    assert {file.parent.name for file in tmp_path.rglob("LongEmbedPasskey.json")} == {REVISION, *experiments}
