from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """Result and prediction files that mteb wrote: `toy/good+pi@512` knows 15 of 20 numbers, `toy/poor` 5."""
    import mteb

    from tests.reports.toy_mteb import ToyEncoder, ToyPasskey

    folder = tmp_path_factory.mktemp("toy")
    for name, n_known in (("toy/good+pi@512", 15), ("toy/poor", 5)):
        kept = {"cache": mteb.ResultCache(folder / "results"), "co2_tracker": False}
        predictions = folder / name.replace("/", "_")
        mteb.evaluate(ToyEncoder(name, n_known), [ToyPasskey()], prediction_folder=predictions, **kept)
    good, poor = folder / "toy_good+pi@512", folder / "toy_poor"
    return SimpleNamespace(results=folder / "results", good=good, poor=poor)


@pytest.fixture
def toy_task(monkeypatch):
    """The toy in place of the task that the predictions name."""
    from tests.reports.toy_mteb import ToyPasskey

    def load(name, splits):
        task = ToyPasskey()
        task.load_data()
        return task

    monkeypatch.setattr("mteb_longembed.commands.report.load_task", load)
