"""One split of a task: what is left out, several subsets, samples."""

import copy
from pathlib import Path

import pytest

from mteb_longembed.data.task import beir_task
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.sampling import sampled
from mteb_longembed.evaluation.split import Split, splits_of
from tests import tiny
from tests.own_data import beir, judge


def test_a_split_has_its_own_copy_of_the_task(tmp_path) -> None:
    task = beir_task(beir(tmp_path, ["a b", "c d"], ["a"]))
    k_values = task.k_values
    (split,) = splits_of(task, [read_metric("nDCG@20")], ignore_identical_ids=True)
    assert split.task.ignore_identical_ids and not task.ignore_identical_ids and task.k_values == k_values


def test_a_split_has_the_name_of_the_task_and_the_given_metrics_or_the_main_score(tmp_path) -> None:
    task = beir_task(beir(tmp_path, ["a b", "c d"], ["a"]))
    (split,) = splits_of(task)
    assert split.label == (task.metadata.name, "test") and split.metrics == (read_metric("nDCG@10"),)
    given = (read_metric("RR@5"), read_metric("nDCG@20"))
    assert splits_of(task, given)[0].metrics == given


def test_a_task_that_was_unloaded_is_loaded_again(tmp_path) -> None:
    task = beir_task(beir(tmp_path, ["a b", "c d"], ["a"]))
    task.unload_data()
    (split,) = splits_of(task)
    assert split.corpus["id"][:] == ["d0", "d1"]


def test_each_subset_is_a_split_of_its_own(tmp_path) -> None:
    task = beir_task(beir(tmp_path, ["a b", "c d"], ["a"]))
    task.dataset["other"] = copy.copy(task.dataset["default"])
    task.hf_subsets = ["default", "other"]
    languages = {"default": ["eng-Latn"], "other": ["deu-Latn"]}
    task.metadata = task.metadata.model_copy(update={"eval_langs": languages})
    splits = splits_of(task)
    assert [split.label[1] for split in splits] == ["test default", "test other"]
    assert splits[0].digest != splits[1].digest


def test_queries_without_judgement_and_empty_documents_are_said(tmp_path) -> None:
    root = beir(tmp_path, [*(tiny.text(20, i) for i in range(3)), " "], ["a", "b"])
    (split,) = splits_of(beir_task(judge(root, "q0\td0\t1", "q1\td1\t0")))
    queries, documents = split.left_out()
    assert queries.endswith("1 of 2 queries have no relevant document and are not scored.")
    assert documents.endswith("1 of 4 documents have no text.")


def test_queries_that_are_documents_are_counted(tmp_path) -> None:
    texts = [f"word{i} and more" for i in range(4)]
    root = beir(tmp_path / "a", texts, texts)
    for path in (root / "queries.jsonl", root / "qrels" / "test.tsv"):
        path.write_text(path.read_text().replace('"q0"', '"d0"').replace("q0\t", "d0\t"))
    (split,) = splits_of(beir_task(root))
    (sentence,) = split.identical_queries()
    assert "1 of 4 queries are documents too" in sentence and "--ignore-identical-ids" in sentence
    (ruled,) = splits_of(beir_task(root), ignore_identical_ids=True)
    assert not ruled.identical_queries()


# ---- a sample


def folder(root: Path) -> Path:
    """40 documents and two queries, each the beginning of one; d2 and d3 repeat much of what d0 and d1 say."""
    texts = [tiny.text(40, seed) for seed in range(40)]
    texts[2:4] = [f"{texts[0][:80]} {texts[2]}", f"{texts[1][:80]} {texts[3]}"]
    return beir(root, texts, [text[:80] for text in texts[:2]])


def kept(root: Path, n: int, seed: int = 0) -> list[str]:
    (split,) = splits_of(beir_task(root))
    return sampled(split, n, seed)[0].corpus["id"][:]


def test_judged_documents_stay_then_hard_ones_then_random_ones(tmp_path) -> None:
    root = folder(tmp_path)
    samples = [kept(root, 6, seed) for seed in range(4)]
    assert all(len(names) == 6 and {"d0", "d1", "d2", "d3"} < set(names) for names in samples)
    assert len(set(map(tuple, samples))) > 1 and kept(root, 6) == samples[0]
    (split,) = splits_of(beir_task(root))
    assert sampled(split, 6)[0].corpus["id"][:] == samples[0]  # the seed is 0
    assert sampled(split, 40) == sampled(split, 41) == (split, [])
    assert kept(root, 2) == ["d0", "d1"]
    with pytest.raises(InputError, match=r"^--sample must be at least 2 documents, the judged .* got 1\.$"):
        kept(root, 1)


def test_the_best_documents_of_bm25_are_the_hard_ones_first_by_rank_and_then_by_query(tmp_path) -> None:
    words = [f"q{query}" for query in range(2)]
    # after the judged document d0 or d1, the one with the query's word most often is the best
    texts = ["q0 " * 30, "q1 " * 30]
    texts += [f"{word} " * (20 - 4 * rank) + "x " * 20 for rank in range(4) for word in words]
    texts += ["x y z"] * 20
    root = beir(tmp_path, texts, words)
    # judged ones, and half of the others
    for n, hard in ((4, {"d2"}), (6, {"d2", "d3"}), (8, {"d2", "d3", "d4"})):
        names = [set(kept(root, n, seed)) for seed in range(9)]
        assert set.intersection(*names) == {"d0", "d1", *hard}


def test_the_hard_ones_are_the_best_hundred_of_each_query(tmp_path) -> None:
    # the fewer other words, the better
    texts = ["q0 " * 30, *("q0 " + "x " * number for number in range(1, 400))]
    root = beir(tmp_path, texts, ["q0"])
    names = set.intersection(*(set(kept(root, 231, seed)) for seed in range(9)))
    assert names == {f"d{number}" for number in range(100)}


def test_a_sample_leaves_the_task_as_it_is(tmp_path) -> None:
    task = beir_task(folder(tmp_path))
    (whole,) = splits_of(task)
    part, (sentence,) = sampled(whole, 6)
    assert isinstance(part, Split) and "a sample of 6 of 40 documents" in sentence
    assert len(task.dataset["default"]["test"]["corpus"]) == len(whole.corpus) == 40
    assert part.task.metadata.name == f"{task.metadata.name}-sample6" and part.digest != whole.digest
