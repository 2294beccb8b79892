"""Metrics by query, compared with trec_eval on every order of equal scores; names of metrics."""

from itertools import permutations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.metrics import (
    TOLERANCE,
    Metric,
    decide_score,
    expected_score,
    group_ties,
    read_metric,
)

METRICS = ("nDCG", "R", "P", "AP", "RR", "Success")
names = [f"d{i}" for i in range(6)]
judgements = st.dictionaries(st.sampled_from(names), st.integers(-1, 3), min_size=1)


def by_trec_eval(metric: Metric, documents: dict[str, float], judged: dict[str, int]) -> float:
    measure = ir_measures.RR if metric.name == "RR" else ir_measures.parse_measure(str(metric))
    (found,) = ir_measures.pytrec_eval.iter_calc([measure], {"q": judged}, {"q": documents})
    # trec_eval's reciprocal rank has no limit
    is_too_deep = metric.name == "RR" and found.value * metric.rank < 1 - 1e-9
    return 0.0 if is_too_deep else float(found.value)


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(names), st.sampled_from([0.5, 0.25, 0.0, -1.0]), min_size=1),
    judgements,
    st.integers(1, 5),
    st.sampled_from(METRICS),
)
def test_the_score_is_the_mean_over_all_orders_of_equal_scores(documents, judged, rank, name) -> None:
    values = []
    for order in permutations(documents):
        if [documents[key] for key in order] == sorted(documents.values(), reverse=True):
            distinct = {key: float(-place) for place, key in enumerate(order)}
            values.append(by_trec_eval(Metric(name, rank), distinct, judged))
    ours = expected_score(Metric(name, rank), group_ties(documents, judged, 0.0), judged)
    assert ours == pytest.approx(sum(values) / len(values))


#: d1, d2 and d3 share ranks 2 to 4, and two of them are relevant; d4 is not ranked.
TIED = {"d0": 0.9, "d1": 0.5, "d2": 0.5, "d3": 0.5}
JUDGED = {"d1": 2, "d2": 1, "d4": 1, "d5": -1}


@pytest.mark.parametrize(
    ("name", "at_2", "at_4"),
    [
        ("nDCG", 0.239812, 0.498768),  # each shared rank has a mean gain of 1
        ("R", 2 / 9, 2 / 3),
        ("P", 1 / 3, 1 / 2),
        ("AP", 1 / 9, (7 / 6 + 1 + 5 / 6) / 9),
        ("RR", 2 / 3 / 2, 2 / 3 / 2 + 1 / 3 / 3),
        ("Success", 2 / 3, 1),
    ],
)
def test_a_metric_of_tied_documents_is_that_by_hand(name: str, at_2: float, at_4: float) -> None:
    ties = group_ties(TIED, JUDGED, 0.0)
    for rank, want in ((2, at_2), (4, at_4)):
        assert expected_score(Metric(name, rank), ties, JUDGED) == pytest.approx(want, abs=1e-6)


def test_two_relevant_documents_in_any_order_have_a_precision_of_1() -> None:
    judged = {"d0": 1, "d1": 1}
    assert expected_score(Metric("AP", 2), group_ties({"d0": 1.0, "d1": 1.0}, judged, 0.0), judged) == 1


def test_only_an_order_that_could_change_the_score_decides() -> None:
    judged = {"d0": 1}
    assert decide_score(group_ties({"d0": 1.0, "d1": 1.0}, judged, 0.0), 1)
    assert not decide_score(group_ties({"d0": 1.0, "d1": 0.9, "d2": 0.9}, judged, 0.0), 10)
    # the tie begins at the last rank that counts, or behind it
    assert not decide_score(group_ties({"d1": 2.0, "d0": 1.0, "d2": 1.0}, judged, 0.0), 1)
    assert not decide_score(group_ties({"d1": 3.0, "d3": 2.0, "d0": 1.0, "d2": 1.0}, judged, 0.0), 1)


@pytest.mark.parametrize("grade", [0, -1])
def test_a_document_that_is_judged_irrelevant_may_swap_with_one_that_is_not_judged(grade) -> None:
    assert not decide_score(group_ties({"d0": 1.0, "d1": 1.0}, {"d0": grade, "d2": 1}, 0.0), 1)


def test_an_error_of_a_product_makes_scores_equal_and_without_tolerance_nothing_does() -> None:
    scores = {"d0": 0.9, "d1": 0.9 + 1e-8, "d2": 0.8}
    assert [tie.size for tie in group_ties(scores, {}, TOLERANCE)] == [2, 1]
    assert [tie.size for tie in group_ties(scores, {}, 0.0)] == [1, 1, 1]


def test_metrics_have_the_names_of_both_in_any_letters_and_others_are_refused() -> None:
    names = {"mrr_at_10": "RR@10", "NDCG@10": "nDCG@10", "MAP@10": "AP@10", "Recall@5": "R@5"}
    assert {text: str(read_metric(text)) for text in names} == names
    assert [read_metric(f"P@{rank}").rank for rank in (1, 1_000_000)] == [1, 1_000_000]
    for text in ("F1@10", "nDCG", "nDCG@0", "nDCG@1000001", "nDCG@x", ""):
        with pytest.raises(InputError, match="a metric must be one of nDCG, R, P, AP, RR, Success at"):
            read_metric(text)
