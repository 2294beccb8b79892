"""What a probe says of a candidate's cost."""

from __future__ import annotations

import numpy as np
import pytest

from mteb_longembed.comparing import costs


class Model:
    """Needs one second for each document, or more where it is stopped. The clock is its own."""

    def __init__(self, stops: dict[int, float]) -> None:
        self.now, self.calls, self.stops = 0.0, 0, stops

    def encode_document(self, texts: list[str], **_: object) -> list[np.ndarray]:
        self.calls += 1
        self.now += 1.0 + self.stops.get(self.calls, 0.0)
        return [np.zeros((2, 4), np.float32) for _ in texts]


def probed(model: Model, monkeypatch: pytest.MonkeyPatch) -> costs.Cost:
    monkeypatch.setattr(costs.time, "perf_counter", lambda: model.now)
    monkeypatch.setattr(costs, "_PROBE_SECONDS", 60.0)
    return costs.probe(model, costs.Texts([4500] * 11, ["word " * 900] * 11), 512)


def test_a_document_during_which_the_machine_does_something_else_does_not_count(monkeypatch) -> None:
    assert probed(Model({3: 20.0, 5: 7.0}), monkeypatch) == probed(Model({}), monkeypatch)
    assert probed(Model({}), monkeypatch) == costs.Cost(512.0, 2.0, 2 * 4 * 4, costs.share_read([4500], 512))


def test_the_first_call_is_not_measured(monkeypatch) -> None:
    assert probed(Model({1: 1000.0}), monkeypatch).tokens_per_second == 512
