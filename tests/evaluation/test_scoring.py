"""Metrics by query, compared with mteb's; names of metrics; a language's words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, mrr

from mteb_longembed.data.task import files_task
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.scoring import main_metric, read_metric, score_queries
from mteb_longembed.tasks import LongEmbedPasskey
from tests.own_data import bm25

METRICS = {
    "nDCG": "ndcg_cut_",
    "R": "recall_",
    "P": "P_",
    "AP": "map_cut_",
    "RR": "mrr_",
    "Success": "success_",
}
ids = st.sampled_from([f"d{i}" for i in range(6)] + ["d10", "D1", "é"])


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(ids, st.integers(0, 3), min_size=1).filter(lambda d: any(d.values())),
    st.dictionaries(ids, st.sampled_from([0.0, 0.5, 0.5000000001, 1.0, -1.0]), min_size=1),
    st.integers(1, 10),
)
def test_each_metric_equals_mtebs_for_each_query_ties_included(judged, ranked, k) -> None:
    expected = calculate_retrieval_scores({"q": ranked}, {"q": judged}, [k]).all_scores["q"]
    expected[f"mrr_{k}"] = mrr({"q": judged}, {"q": ranked}, [k])[f"MRR@{k}"][0]
    for ours, theirs in METRICS.items():
        (value,) = score_queries({"q": judged}, {"q": ranked}, read_metric(f"{ours}@{k}")).values()
        if ours == "RR" and len({round(x, 6) for x in ranked.values()}) < len(set(ranked.values())):
            continue  # trec_eval compares in single precision, mteb's own reciprocal rank in double
        assert value == pytest.approx(expected[f"{theirs}{k}"], abs=1e-9), ours


def test_metrics_have_the_names_of_both_in_any_letters_and_others_are_refused() -> None:
    assert str(read_metric("mrr_at_10")) == "RR@10" and str(main_metric(LongEmbedPasskey())) == "nDCG@1"
    names = {
        "NDCG@10": "nDCG@10",
        "MRR@10": "RR@10",
        "MAP@10": "AP@10",
        "ndcg@3": "nDCG@3",
        "Recall@5": "R@5",
    }
    assert {text: str(read_metric(text)) for text in names} == names
    for text in ("F1@10", "nDCG", "nDCG@0", "nDCG@x", ""):
        with pytest.raises(InputError, match="a metric must be one of nDCG, R, P, AP, RR, Success at"):
            read_metric(text)


def test_chinese_and_japanese_are_cut_into_characters(tmp_path) -> None:
    rows = ["北京的冬天很冷经常下雪", "上海的夏天又热又潮湿", "我们昨天去山上看红叶了"]
    lines = [json.dumps({"id": i, "text": text}) for i, text in enumerate(rows)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    (tmp_path / "q.jsonl").write_text('{"id": "a", "text": "热夏天"}\n')
    (tmp_path / "j.tsv").write_text("qid\tdoc_id\tscore\na\t1\t1\n")
    scores = {}
    for language in ("eng-Latn", "zho-Hans"):
        task = files_task(*(tmp_path / name for name in ("c.jsonl", "q.jsonl", "j.tsv")), language=language)
        bm25(task, prediction_folder=tmp_path / language)
        (path,) = (tmp_path / language).glob("*.json")
        scores[language] = json.loads(path.read_text())["default"]["test"]["a"]
    assert max(scores["eng-Latn"].values()) == 0  # the query's words, as English has them, are in no document
    assert max(scores["zho-Hans"], key=scores["zho-Hans"].__getitem__) == "1"
