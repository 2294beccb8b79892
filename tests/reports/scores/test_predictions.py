import shutil

import pytest

from mteb_longembed.errors import DataError
from mteb_longembed.reports.scores.predictions import depth_points, load_predictions, load_task, query_scores
from mteb_longembed.reports.scores.results import load_results


def test_files_that_mteb_wrote_are_read(toy_run):
    found, problems = load_predictions([toy_run.good])
    assert problems == []
    read = (found[0].model, found[0].revision, found[0].task)
    assert read == ("toy/good+pi@512", "toy", "LongEmbedPasskey")
    rows, problems = load_results([toy_run.results])
    assert problems == [] and {row.model.name.full for row in rows} == {"toy/good+pi@512", "toy/poor"}


def test_scores_a_query_average_to_what_mteb_reports(toy_run, toy_task):
    (good,), _ = load_predictions([toy_run.good])
    scores = query_scores(good, load_results([toy_run.results])[0])
    assert set(scores) == {"test_256", "test_512"}
    assert all(scores["test_256"][f"q{i}"] == 1 for i in range(15))
    # Of the five that look alike one comes first by chance.
    assert sum(scores["test_256"].values()) == 16


def test_a_file_written_over_by_another_model_is_refused(toy_run, toy_task, tmp_path):
    # mteb keeps the first model's name in the file, and the second one's rankings.
    import mteb

    from tests.reports.toy_mteb import ToyEncoder, ToyPasskey

    shutil.copytree(toy_run.good, tmp_path / "shared")
    cache = mteb.ResultCache(tmp_path / "results")
    options = {"cache": cache, "prediction_folder": tmp_path / "shared", "co2_tracker": False}
    mteb.evaluate(ToyEncoder("toy/poor", 5), [ToyPasskey()], **options)
    (mixed,), _ = load_predictions([tmp_path / "shared"])
    assert mixed.model == "toy/good+pi@512"
    with pytest.raises(DataError, match="another run has overwritten it"):
        query_scores(mixed, load_results([toy_run.results])[0])


def test_depth_comes_from_the_document_that_answers(toy_run, toy_task):
    (poor,), _ = load_predictions([toy_run.poor])
    points = depth_points(poor, query_scores(poor))
    assert len(points) == 40
    right = {point.depth for point in points if point.score == 1}
    assert {0.0, 0.05, 0.1, 0.15, 0.2} <= right
    assert {point.length for point in points} == {256, 512}


def _ranked(split):
    return f'{{"mteb_model_meta": {{"model_name": "a/b"}}, "default": {{"test": {split}}}}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"default": {}}', "not an MTEB predictions file"),
        ('{"mteb_model_meta": {"model_name": "a/b"}}', "no rankings for the subset 'default'"),
        ("[" * 100_000, "nested too deeply"),
        (_ranked("[]"), "ranking of query '' in split 'test' is not finite scores"),
        (_ranked('{"q": [1]}'), "ranking of query 'q'"),
        (_ranked('{"q": {"d": NaN}}'), "ranking of query 'q'"),
        (_ranked('{"q": {"d": "1"}}'), "ranking of query 'q'"),
    ],
)
def test_a_broken_predictions_file_is_named_and_skipped(tmp_path, text, reason):
    (tmp_path / "LongEmbedPasskey_predictions.json").write_text(text)
    found, (problem,) = load_predictions([tmp_path])
    assert found == []
    assert "LongEmbedPasskey_predictions.json" in problem
    assert reason in problem


def test_a_task_that_mteb_does_not_know_is_one_sentence():
    with pytest.raises(DataError, match="the data of task 'NoSuchTask' could not be loaded through mteb"):
        load_task("NoSuchTask", ("test",))
