import json
import shutil
from pathlib import Path

import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.reports.scores.results import load_results
from tests.reports.made import BASE, write_result

TASK = "LongEmbedQMSum"


def test_a_result_file_becomes_one_row_a_split(tmp_path):
    write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.5, "test_512": 0.25})
    rows, problems = load_results([tmp_path])
    assert problems == []
    assert {(row.split, row.score) for row in rows} == {("test_256", 0.5), ("test_512", 0.25)}
    assert (rows[0].model.name.full, rows[0].dataset_revision) == (BASE, "g1")


def test_a_file_without_a_model_beside_it_is_named_and_skipped(tmp_path):
    path = write_result(tmp_path, TASK, {"test": 0.1})
    (path.parent / "model_meta.json").unlink()
    rows, (problem,) = load_results([tmp_path])
    assert rows == [] and f"{TASK}.json" in problem and "model_meta.json" in problem


def test_parameters_and_length_come_from_model_meta(tmp_path):
    path = write_result(tmp_path, TASK, {"test": 0.1})
    meta = {"name": BASE, "revision": "r1", "n_parameters": 109482240, "max_tokens": float("inf")}
    (path.parent / "model_meta.json").write_text(json.dumps(meta))
    ((row,), _) = load_results([tmp_path])
    assert (row.model.n_parameters, row.model.max_tokens) == (109482240, None)


def _with(scores):
    return f'{{"task_name": "{TASK}", "scores": {{"test": [{{"hf_subset": "default", {scores}}}]}}}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"scores": {"test', "not valid JSON"),
        ("[1, 2]", "a list"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        (_with(f'"ndcg_at_10": {"9" * 400}'), "must be from 0 to 1"),
        ('{"task_name": "Other", "scores": {}}', "must be 'LongEmbedQMSum', got 'Other'"),
        ('{"task_name": "LongEmbedQMSum", "scores": 3}', "'scores' is not an object"),
        ('{"task_name": "LongEmbedQMSum", "test": {"ndcg_at_10": 0.3}}', "'scores' is not an object"),
        ('{"task_name": "LongEmbedQMSum", "scores": {"test": 3}}', "0 subsets named 'default'"),
        ('{"task_name": "LongEmbedQMSum", "scores": {"test": []}}', "0 subsets named 'default'"),
        (_with('"ndcg_at_1": 1'), "no number 'ndcg_at_10'"),
        (_with('"ndcg_at_10": "high"'), "no number 'ndcg_at_10'"),
        (_with('"ndcg_at_10": 53.2'), "must be from 0 to 1, got 53.2"),
        (_with('"ndcg_at_10": NaN'), "must be from 0 to 1, got nan"),
    ],
)
def test_a_broken_file_is_named_and_skipped_and_the_rest_is_read(tmp_path, text, reason):
    good = write_result(tmp_path, "LongEmbedNarrativeQA", {"test": 0.5})
    (good.parent / f"{TASK}.json").write_text(text)
    (row,), (problem,) = load_results([tmp_path])
    assert row.task == "LongEmbedNarrativeQA"
    assert f"{TASK}.json" in problem and reason in problem


def test_a_broken_model_meta_is_named(tmp_path):
    path = write_result(tmp_path, TASK, {"test": 0.5})
    (path.parent / "model_meta.json").write_text("{")
    rows, (problem,) = load_results([tmp_path])
    assert rows == [] and "model_meta.json beside it: it is not valid JSON" in problem


def test_files_of_other_tasks_and_predictions_are_not_read(tmp_path):
    (tmp_path / "notes.json").write_text("no JSON")
    (tmp_path / "Banking77Classification.json").write_text('{"task_name": "Banking77Classification"}')
    (tmp_path / "LongEmbedQMSum_predictions.json").write_text('{"mteb_model_meta": {}, "default": {}}')
    assert load_results([tmp_path]) == ([], [])


def test_the_same_file_given_twice_counts_once(tmp_path):
    write_result(tmp_path / "one", TASK, {"test": 0.5})
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    rows, problems = load_results([tmp_path, tmp_path / "one", tmp_path / "two"])
    assert (len(rows), problems) == (1, [])


def test_two_scores_of_one_run_keep_the_first_and_say_so(tmp_path):
    write_result(tmp_path / "one", TASK, {"test": 0.5})
    write_result(tmp_path / "two", TASK, {"test": 0.6})
    (row,), (problem,) = load_results([tmp_path / "one", tmp_path / "two"])
    assert row.score == 0.5 and "has another score" in problem


def test_a_missing_folder_is_an_error():
    with pytest.raises(InputError, match="no results folder 'nowhere'"):
        load_results([Path("nowhere")])


def test_generated_data_of_another_revision_are_left_out_and_named(tmp_path):
    for name, revision in (("a/b", "g1"), ("a/c", "g1"), ("a/d", "g2")):
        write_result(tmp_path, "LongEmbedPasskey", {"test_256": 0.5}, name=name, dataset_revision=revision)
        write_result(tmp_path, TASK, {"test": 0.5}, name=name, dataset_revision=revision)
    rows, (problem,) = load_results([tmp_path])
    read = {(row.model.name.full, row.task) for row in rows}
    assert read == {(name, TASK) for name in ("a/b", "a/c", "a/d")} | {
        (name, "LongEmbedPasskey") for name in ("a/b", "a/c")
    }
    assert "a__d" in problem and "another revision of the generated data" in problem


def test_names_of_other_people_have_no_control_characters(tmp_path):
    path = write_result(tmp_path, TASK, {"te\x1b[2Jst": 0.5}, name="a/b")
    meta = {"name": "a/b\x1b[31m\n\u202egnp\ud800", "revision": "r\x07", "n_parameters": 10**400}
    (path.parent / "model_meta.json").write_text(json.dumps(meta))
    ((row,), _) = load_results([tmp_path])
    shown = row.model.name.full + row.model.revision + row.split
    assert shown.isprintable() and shown.encode("utf-8")
    assert row.model.n_parameters is None
