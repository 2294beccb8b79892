import json
from pathlib import Path

import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.reports.results import COLUMNS, load_results
from tests.reports.made import BASE, write_result

TASK = "LongEmbedQMSum"


def test_a_result_file_becomes_one_row_a_split(tmp_path):
    write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.5, "test_512": 0.25}, name=f"{BASE}+ntk@4096")
    frame, problems = load_results([tmp_path])
    assert problems == [] and tuple(frame.columns) == COLUMNS
    assert list(zip(frame["length"], frame["score"], strict=True)) == [(256, 50.0), (512, 25.0)]
    row = frame.iloc[0]
    assert (row["model"], row["base"], row["strategy"]) == (f"{BASE}+ntk@4096", BASE, "ntk")
    assert (row["target"], row["revision"], row["data"]) == (4096, "r1", "g1")


def test_an_experiment_with_a_strategy_is_a_model_on_its_base(tmp_path):
    experiment = {"strategy": "ntk", "target_len": 4096, "logn": False, "algorithm": "le3"}
    new = write_result(tmp_path, TASK, {"test": 0.25})
    folder = tmp_path / "intfloat__e5-base-v2" / "c1" / "experiments" / "any"
    folder.mkdir(parents=True)
    new.rename(folder / new.name)
    described = {"name": BASE, "revision": "c1", "experiment_kwargs": experiment}
    (folder / "model_meta.json").write_text(json.dumps(described))
    frame, problems = load_results([tmp_path])
    assert problems == []
    same = frame[["model", "revision", "base", "strategy", "target"]].drop_duplicates()
    assert same.values.tolist() == [[f"{BASE}+ntk@4096,logn=off", "c1-le3", BASE, "ntk", 4096]]
    (folder / "model_meta.json").write_text(json.dumps({**described, "experiment_kwargs": [1]}))
    _, (problem,) = load_results([tmp_path])
    assert "'experiment_kwargs'" in problem


def test_the_real_tasks_have_one_name_and_the_generated_ones_two(tmp_path):
    for name in ("LEMBQMSumRetrieval", "LEMBPasskeyRetrieval", "LongEmbedPasskey"):
        write_result(tmp_path, name, {"test": 0.5})
    frame, _ = load_results([tmp_path])
    assert set(frame["task"]) == {TASK, "LEMBPasskeyRetrieval", "LongEmbedPasskey"}


def test_a_file_without_a_model_beside_it_is_named_and_skipped(tmp_path):
    path = write_result(tmp_path, TASK, {"test": 0.1})
    for damage in (lambda meta: meta.write_text("{"), lambda meta: meta.unlink()):
        damage(path.parent / "model_meta.json")
        frame, (problem,) = load_results([tmp_path])
        assert frame.empty and f"{TASK}.json" in problem and "model_meta.json" in problem


def _with(score):
    return f'{{"scores": {{"test": [{{"hf_subset": "default", {score}}}]}}}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"scores": {"test', "not valid JSON"),
        ("[1, 2]", "a list"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"scores": {"test": []}}', "no main_score of one subset"),
        (_with('"main_score": "high"'), "no main_score of one subset"),
        (_with('"main_score": NaN'), "must be from 0 to 1, got nan"),
    ],
)
def test_a_broken_file_is_named_and_skipped_and_the_rest_is_read(tmp_path, text, reason):
    good = write_result(tmp_path, "LongEmbedNarrativeQA", {"test": 0.5})
    (good.parent / f"{TASK}.json").write_text(text)
    frame, (problem,) = load_results([tmp_path])
    assert list(frame["task"]) == ["LongEmbedNarrativeQA"]
    assert f"{TASK}.json" in problem and reason in problem


def test_files_of_other_tasks_and_predictions_are_not_read(tmp_path):
    (tmp_path / "notes.json").write_text("no JSON")
    (tmp_path / "Banking77Classification.json").write_text('{"task_name": "Banking77Classification"}')
    (tmp_path / "LongEmbedQMSum_predictions.json").write_text('{"mteb_model_meta": {}, "default": {}}')
    frame, problems = load_results([tmp_path])
    assert frame.empty and problems == []


def test_of_two_scores_of_one_run_the_first_counts_once_and_that_is_said(tmp_path):
    write_result(tmp_path / "one", TASK, {"test": 0.5})
    write_result(tmp_path / "two", TASK, {"test": 0.6})
    frame, (problem,) = load_results([tmp_path, tmp_path / "one", tmp_path / "two"])
    assert list(frame["score"]) == [50.0] and "another score" in problem
    with pytest.raises(InputError, match="no results folder 'nowhere'"):
        load_results([Path("nowhere")])


def test_generated_data_of_another_revision_are_left_out_and_named(tmp_path):
    # data that moved to another repository are the same
    moved = ("6e346642246bfb4928c560ee08640dc84d074e8c", "86ac5a6437198a94ecd666440c78b3e78f258274")
    for name, revision in zip(("a/b", "a/c", "a/d"), (*moved, "g2"), strict=True):
        write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.5}, name=name, dataset_revision=revision)
        write_result(tmp_path, TASK, {"test": 0.5}, name=name, dataset_revision=revision)
    frame, (problem,) = load_results([tmp_path])
    passkey = frame[frame["task"] == "LongEmbedPasskey"]
    assert list(passkey["model"]) == ["a/b", "a/c"] and len(frame) == 5
    assert "a__d" in problem and "another revision of the data" in problem


def test_names_of_other_people_have_no_control_characters(tmp_path):
    path = write_result(tmp_path, TASK, {"te\x1b[2Jst": 0.5}, name="a/b")
    meta = {"name": "a/b\x1b[31m\n\u202egnp\ud800", "revision": "r\x07"}
    (path.parent / "model_meta.json").write_text(json.dumps(meta))
    frame, _ = load_results([tmp_path])
    shown = "".join(frame.loc[0, ["model", "revision", "split"]])
    assert shown.isprintable() and shown.encode("utf-8")


@pytest.mark.parametrize(
    ("meta", "base", "strategy", "target"),
    [
        ({"name": "a/b", "experiment_kwargs": {"strategy": "pcw"}}, "a/b", "pcw", None),
        ({"name": "someone/a+b@c"}, "someone/a+b@c", "none", None),
        (
            {"name": "a/bm25", "experiment_kwargs": {"k": 2, "target_len": 512}},
            "a/bm25@512,k=2",
            "none",
            None,
        ),
    ],
)
def test_a_description_gives_base_strategy_and_target(tmp_path, meta, base, strategy, target):
    path = write_result(tmp_path, TASK, {"test": 0.5})
    (path.parent / "model_meta.json").write_text(json.dumps(meta))
    row = load_results([tmp_path])[0].iloc[0]
    assert (row["base"], row["strategy"], row["target"]) == (base, strategy, target)
