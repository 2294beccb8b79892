"""Documents with equal scores: the mean over all of their orders, each of them scored by trec_eval."""

from itertools import permutations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.evaluation.ties import decide_score, expected_score, group_ties

METRICS = ("nDCG", "R", "P", "AP", "RR", "Success")
names = [f"d{i}" for i in range(6)]
rankings = st.dictionaries(st.sampled_from(names), st.sampled_from([0.5, 0.25, 0.0, -1.0]), min_size=1)
judgements = st.dictionaries(st.sampled_from(names), st.integers(0, 3), min_size=1)


def mean_over_orders(metric: str, rank: int, documents: dict[str, float], judged: dict[str, int]) -> float:
    """Each order of equal scores gets scores of its own, which trec_eval then ranks."""
    values = []
    for order in permutations(documents):
        if [documents[name] for name in order] != sorted(documents.values(), reverse=True):
            continue
        run = {"q": {name: float(-place) for place, name in enumerate(order)}}
        asked = ir_measures.RR if metric == "RR" else ir_measures.parse_measure(f"{metric}@{rank}")
        (found,) = ir_measures.pytrec_eval.iter_calc([asked], {"q": judged}, run)
        values.append(0.0 if metric == "RR" and found.value * rank < 1 - 1e-9 else found.value)
    return sum(values) / len(values)


@settings(max_examples=60, deadline=None)
@given(rankings, judgements, st.integers(1, 5), st.sampled_from(METRICS))
def test_the_score_is_the_mean_over_all_orders_of_equal_scores(documents, judged, rank, metric) -> None:
    ties = group_ties(documents, judged)
    assert expected_score(metric, rank, ties, judged) == pytest.approx(
        mean_over_orders(metric, rank, documents, judged)
    )


def test_only_an_order_that_could_change_the_score_decides() -> None:
    judged = {"d0": 1}
    assert decide_score(group_ties({"d0": 1.0, "d1": 1.0}, judged), 1)
    assert not decide_score(group_ties({"d0": 1.0, "d1": 0.9, "d2": 0.9}, judged), 10)
    assert not decide_score(group_ties({"d1": 2.0, "d0": 1.0, "d2": 1.0}, judged), 1)


def test_scores_that_differ_by_an_error_of_a_product_are_equal() -> None:
    assert [tie.size for tie in group_ties({"d0": 0.9, "d1": 0.9 + 1e-8, "d2": 0.8}, {})] == [2, 1]
