"""How much a fusion should trust words, learned on other groups of queries than those that it is scored on."""

import json
from typing import Any

import numpy as np
import pytest
from mteb.models.model_meta import ModelMeta

from mteb_longembed.comparing.page import as_json, tables
from mteb_longembed.comparing.trust import Trust
from mteb_longembed.data.task import beir_task
from tests import tiny
from tests.comparing.conftest import compare
from tests.own_data import beir, judge

N = 48


class Words:
    """A fusion whose first part puts a wrong document first by `lead`, and whose second part has the right one."""

    trust = 1.2

    def __init__(self, lead: np.ndarray) -> None:
        self.lead = lead
        self.meta = ModelMeta.create_empty(
            overwrites={"name": "me/words", "revision": lead.tobytes().hex()[:40]}
        )

    def fit(self, documents: Any) -> None:
        self.texts = list(documents.texts)

    def parts(self, queries: Any) -> tuple[np.ndarray, np.ndarray]:
        places = [self.texts.index(query) for query in queries]
        first = np.zeros((len(places), N), np.float32)
        second = np.zeros((len(places), N), np.float32)
        first[range(len(places)), [(place + 1) % N for place in places]] = self.lead[places]
        second[range(len(places)), places] = 1
        return first, second

    def scores(self, queries: Any) -> np.ndarray:
        first, second = self.parts(queries)
        return first + self.trust * second

    def passages(self, queries: Any, numbers: Any) -> Any:
        return [[(0, 1) for _ in row] for row in numbers]


def trust_of(lead: np.ndarray, tmp_path: Any, *, judged: Any = None) -> tuple[Any, Trust | None]:
    texts = [tiny.text(9, seed) for seed in range(N)]
    root = beir(tmp_path / "data", texts, texts)
    if judged is not None:
        judge(root, *judged)
    comparison = compare([Words(lead)], beir_task(root), tmp_path / "out", metric="nDCG@1")
    return comparison, comparison.trust


def test_a_better_trust_is_named_with_its_curve_and_what_it_gains_on_other_groups(tmp_path) -> None:
    comparison, trust = trust_of(np.where(np.arange(N) % 3, 1.5, 0.5), tmp_path)
    assert trust is not None and trust.better == 1.6 and trust.own == 1.2
    by_hand = {0: 0, 0.4: 0, 0.8: 100 / 3, 1.2: 100 / 3, 1.6: 100, 2: 100, 3: 100, 4: 100}
    assert trust.curve == pytest.approx(by_hand)
    assert trust.gain.mean == pytest.approx(200 / 3) and trust.gain.low > 0
    # its own scores are those of the scorer, and values of the curve are no metrics of a candidate
    assert comparison.summary["score"].item() == pytest.approx(100 / 3)
    assert not any(name.startswith("trust") for name in comparison.summary)
    assert json.loads(as_json(comparison))["trust"]["curve"]["1.6"] == pytest.approx(100)
    (table,) = [table for table in tables(comparison) if table.key == "trust"]
    assert list(table.cells)[3:5] == ["1.2 (now)", "1.6"] and table.cells["1.6"].item() == "100.0"
    assert table.notes[0].startswith(
        "Trust in words of me/words: 1.6 is better than 1.2; chosen by the other"
    )
    # the scores that were kept have it too, and nothing is scored again
    again, kept = trust_of(np.where(np.arange(N) % 3, 1.5, 0.5), tmp_path)
    assert again.scores.equals(comparison.scores) and kept == trust


def test_what_only_luck_prefers_is_within_the_spread(tmp_path) -> None:
    lead = np.full(N, 0.5)
    lead[0] = 1.5
    _, trust = trust_of(lead, tmp_path)
    # the highest value of the curve is not named: one document decides it
    assert trust is not None and trust.curve[1.6] > trust.curve[1.2] and trust.better is None
    assert "its value, 1.2, is within the spread" in trust.sentence


def test_a_choice_is_never_scored_on_the_group_that_made_it(tmp_path) -> None:
    # all gain lies in one group of queries: the others choose the default, so that nothing is gained
    judged = [f"q{i}\td{i}\t1" for i in range(N)] + [f"q{i}\td0\t1" for i in range(1, 12)]
    lead = np.where(np.arange(N) < 12, 1.5, 0.5)
    _, trust = trust_of(lead, tmp_path, judged=judged)
    assert trust is not None and trust.gain.mean == 0 and trust.better is None
    assert trust.curve[1.6] > trust.curve[1.2] + 20


def test_few_groups_and_scorers_without_parts_have_no_curve(task, tmp_path) -> None:
    _, trust = trust_of(np.ones(N), tmp_path, judged=[f"q{i}\td{i}\t1" for i in range(5)])
    assert trust is None
    assert compare(["bm25"], task, tmp_path).trust is None
