from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """Result and prediction files that mteb wrote: `toy/good+pi@512` knows 15 of 20 numbers, `toy/poor` 5."""
    import mteb

    from tests.reports.toy_mteb import ToyEncoder, ToyPasskey

    folder = tmp_path_factory.mktemp("toy")
    for name, n_known in (("toy/good+pi@512", 15), ("toy/poor", 5)):
        mteb.evaluate(
            ToyEncoder(name, n_known),
            [ToyPasskey()],
            cache=mteb.ResultCache(folder / "results"),
            prediction_folder=folder / name.replace("/", "_"),
            co2_tracker=False,
        )
    return SimpleNamespace(
        results=folder / "results", good=folder / "toy_good+pi@512", poor=folder / "toy_poor", folder=folder
    )


@pytest.fixture
def toy_task(monkeypatch):
    """The toy in place of the task that the predictions name."""
    from tests.reports.toy_mteb import ToyPasskey

    def load(name, splits):
        task = ToyPasskey()
        task.load_data()
        return task

    monkeypatch.setattr("mteb_longembed.reports.scores.predictions.load_task", load)
