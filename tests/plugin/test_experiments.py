"""A name is an experiment and an experiment is a name; what the stock command writes passes the checks of results."""

import json
import re
import sys

import mteb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mteb.cli.build_cli import main as mteb_main
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_meta import ModelMeta
from mteb.results import TaskResult

import mteb_longembed
from mteb_longembed.encoders.strategies import ALGORITHM, STRATEGIES
from mteb_longembed.errors import LongEmbedError
from tests.metas import full_name

#: What a name may set, by key; the values are spelt in several ways.
SETTINGS = {
    "logn": ["on", "off"], "sigma": ["4", "4.0"], "size": ["64"], "overlap": ["8"], "vectors": ["8", "window"],
    "dtype": ["bf16"], "trained_len": ["256"], "fusion": ["words"], "lexical_weight": ["0.5", "1"], "weights": ["idf"],
    "whiten": ["0.5", "1"], "score": ["max", "softmax"], "query": ["sentences"],
}  # fmt: skip
BM25 = {
    "window": ["9", "200"],
    "query": ["sentences"],
    "score": ["max", "softmax"],
}
#: Folder of mteb -> the one name whose results are there.
_FOLDERS: dict[tuple[str, str], str] = {}


@st.composite
def names(draw: st.DrawFn) -> str:
    """A name of one of our models or of a BM25, as people write it."""
    base = draw(st.sampled_from(["mini-rope", "mini-ape", "bm25"]))
    strategy = "" if base == "bm25" else f"+{draw(st.sampled_from([*STRATEGIES, 'lexical']))}"
    known = BM25 if strategy in ("", "+lexical") else SETTINGS
    keys = draw(st.lists(st.sampled_from([*known]), unique=True, min_size=base == "bm25", max_size=3))
    target = draw(st.sampled_from(["", "@1k", "@1024", "@2048"]))
    written = ",".join(f"{key}={draw(st.sampled_from(known[key]))}" for key in keys)
    return f"{base}{strategy}{target}" + (f":{written}" if written else "")


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much], deadline=None)
@given(names())
def test_an_experiment_is_made_from_a_name_and_the_name_from_the_experiment(name: str) -> None:
    try:
        meta = mteb.get_model_meta(name)
    except LongEmbedError:
        assume(False)
        raise
    written = json.loads(json.dumps(meta.experiment_kwargs))
    read = meta.model_copy(update={"experiment_kwargs": written})
    same = mteb.get_model_meta(full_name(read))
    assert (same.name, same.revision, same.experiment_kwargs) == (meta.name, meta.revision, written)
    assert full_name(same) == full_name(meta)
    folder = str(meta.name), str(meta.experiment_name)
    assert _FOLDERS.setdefault(folder, full_name(meta)) == full_name(meta)


def test_an_experiment_asks_mteb_for_the_same_model_as_its_name() -> None:
    experiment = {"strategy": "ntk", "target_len": 1024, "dtype": "bf16"}
    meta = mteb.get_model_meta("mteb-longembed/mini-rope", experiment_kwargs=experiment)
    assert meta.experiment_kwargs == {**experiment, "algorithm": ALGORITHM}
    model = meta.load_model(device="cpu")
    assert model.mteb_model_meta.experiment_kwargs == meta.experiment_kwargs
    assert full_name(model.mteb_model_meta) == "mteb-longembed/mini-rope+ntk@1024,dtype=bf16"


@pytest.mark.parametrize("name", ["mini-rope+ntk@1k", "mini-ape+pcw@1k:vectors=window"])
def test_a_model_in_memory_is_described_as_its_name_is(name: str) -> None:
    model = mteb_longembed.load(name, device="cpu")
    describe = ModelMeta.from_sentence_transformer_model
    if "vectors" in name:
        describe = ModelMeta.from_multi_vector_encoder_model
    meta, of_name = describe(model), mteb.get_model_meta(name)
    assert (meta.name, meta.revision, meta.experiment_kwargs, meta.model_type) == (
        of_name.name, of_name.revision, of_name.experiment_kwargs, of_name.model_type
    )  # fmt: skip


def test_what_the_stock_command_writes_passes_the_checks_of_the_public_results(
    online, tmp_path, monkeypatch
) -> None:
    """Written anew from what the tests of mteb's repository of results check: paths, names, revisions, duplicates."""
    for name in ("e5-base+ntk@1k", "e5-base+pi@1k:fusion=bm25", "bm25:window=200"):
        command = ["mteb", "run", "-m", name, "-t", "LongEmbedPasskey", "--eval-splits", "test_256"]
        monkeypatch.setattr(sys, "argv", [*command, "--output-folder", str(tmp_path), "-v", "0"])
        mteb_main()
    results = tmp_path / "results"
    files = [path for path in results.rglob("*.json") if path.name != "model_meta.json"]
    assert len(files) == 3
    seen = set()
    for path in files:
        folder, revision, kind, experiment, task = path.relative_to(results).parts
        meta = json.loads(path.with_name("model_meta.json").read_text())
        assert kind == "experiments" and not re.search(r'[<>:"|?*\\ ]', experiment)
        assert meta["name"] in MODEL_REGISTRY and folder == meta["name"].replace("/", "__")
        assert revision == meta["revision"] == MODEL_REGISTRY[meta["name"]].revision
        assert re.fullmatch("[0-9a-f]{40}", revision) or meta["name"].startswith("mteb/baseline")
        described = ModelMeta.create_empty(
            {key: meta[key] for key in ("name", "revision", "experiment_kwargs")}
        )
        assert described.experiment_name == experiment
        result = TaskResult.from_disk(path)
        assert task == f"{result.task_name}.json"
        assert result.scores.keys() <= set(mteb.get_task(result.task_name).metadata.eval_splits)
        assert path.with_name("run_settings.jsonl").read_text().count("LongEmbedPasskey") >= 1
        seen.add((meta["name"], revision, experiment, result.task_name))
    assert len(seen) == 3
    requested = mteb.get_model_meta("e5-base+ntk@1k")
    [submitted] = mteb.ResultCache(tmp_path).get_cache_paths(
        models=[requested], load_experiments="match_kwargs", include_remote=False
    )
    assert submitted.parent.name == requested.experiment_name
    assert len(list(results.rglob("model_meta.json"))) == 3
