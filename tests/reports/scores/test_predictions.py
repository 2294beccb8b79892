import pytest

from mteb_longembed.reports.scores.results import load_predictions, load_results


def test_files_that_mteb_wrote_are_read(toy_run):
    predictions, problems = load_predictions([toy_run.good])
    assert problems == []
    read = (predictions[0].model, predictions[0].revision, predictions[0].task)
    assert read == ("toy/good+pi@512", "toy", "LongEmbedPasskey")
    rows, problems = load_results([toy_run.results])
    assert problems == [] and {row.model.name.full for row in rows} == {"toy/good+pi@512", "toy/poor"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"default": {}}', "not an MTEB predictions file"),
        ('{"mteb_model_meta": {"model_name": "a/b"}}', "no rankings for the subset 'default'"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_predictions_file_is_named_and_skipped(tmp_path, text, reason):
    (tmp_path / "LongEmbedPasskey_predictions.json").write_text(text)
    predictions, (problem,) = load_predictions([tmp_path])
    assert predictions == []
    assert "LongEmbedPasskey_predictions.json" in problem
    assert reason in problem
