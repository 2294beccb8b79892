"""What is kept belongs to one model, one data set, one rule and one machine, and is checked when it is read."""

import json
import math
import resource
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mteb_longembed import cli
from mteb_longembed.comparing import cache as caching
from mteb_longembed.comparing.cache import Cache
from mteb_longembed.comparing.candidates import named
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.data.task import files_task
from mteb_longembed.errors import StorageError
from mteb_longembed.evaluation.split import splits_of
from tests import tiny
from tests.comparing.conftest import compare
from tests.comparing.frames import LEXICAL
from tests.own_data import beir

#: Documents of 40 tokens; each query is the beginning of one.
TEXTS = [tiny.text(40, i) for i in range(8)]
QUERIES = [" ".join(text.split()[:3]) for text in TEXTS]


def task_of(texts: Sequence[str] = TEXTS) -> Any:
    judged = [{"qid": f"q{i}", "docid": f"d{i}"} for i in range(8)]
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    return files_task(documents, {f"q{i}": text for i, text in enumerate(QUERIES)}, judged)


def run(base: str, task: Any, out: Path, **options: Any) -> Comparison:
    return compare([named(f"{base}+none")], task, out, **options)


def score(comparison: Comparison) -> float:
    return float(comparison.summary["score"].iloc[0])


# ---- identity


def test_scores_of_other_data_or_another_revision_are_not_used(base, tmp_path) -> None:
    first = run(base, task_of(), tmp_path / "out")
    (split,) = splits_of(task_of())
    identity = named(f"{base}+none").identity
    cache = Cache(tmp_path / "out")
    assert cache.find(identity, split) is not None
    assert cache.find(replace(identity, revision="other"), split) is None
    rotated = task_of(TEXTS[1:] + TEXTS[:1])
    changed = run(base, rotated, tmp_path / "out")
    assert score(changed) == score(run(base, rotated, tmp_path / "fresh")) != score(first)


def test_a_deeper_metric_is_never_made_of_what_a_shallower_one_has_kept(base, tmp_path) -> None:
    shallow = run(base, task_of(), tmp_path / "out", metric="nDCG@1")
    after = run(base, task_of(), tmp_path / "out", metric=["nDCG@10", "R@20"])
    alone = run(base, task_of(), tmp_path / "alone", metric=["nDCG@10", "R@20"])
    assert score(after) == score(alone) != score(shallow)
    assert after.summary["R@20"].item() == 100


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("platform.node", lambda: "another"),
        ("torch.get_num_threads", lambda: 99),
        ("version", lambda name: "9.9"),
        ("torch.__version__", "9.9"),
    ],
)
def test_a_cost_belongs_to_its_machine_device_threads_and_versions(base, tmp_path, monkeypatch, what, value):
    identity = named(f"{base}+none").identity
    cache = Cache(tmp_path / "out")

    def kept(device: str) -> Cost:
        return cache.cost(identity, splits_of(task_of()), device, Cost)

    cache.cost(identity, splits_of(task_of()), "cpu", lambda: Cost(tokens=5, device="cpu"))
    assert kept("cpu") == Cost(tokens=5, device="cpu")
    assert kept("cuda") == Cost()
    monkeypatch.setattr(f"mteb_longembed.comparing.cache.{what}", value)
    assert kept("cpu") == Cost()


def test_scores_that_are_damaged_are_made_again(base, tmp_path) -> None:
    task, out = task_of(), tmp_path / "out"
    first = run(base, task, out)
    (path,) = (out / "scores").rglob("*.parquet")
    for n_bytes in (100, None):
        whole = bytearray(path.read_bytes())
        whole[40] ^= 1
        path.write_bytes(whole[:n_bytes])
        assert score(run(base, task, out)) == score(first)


def test_a_disk_that_keeps_no_scores_does_not_take_the_answer(base, tmp_path, monkeypatch, capfd) -> None:
    def full(path: Path, _: object) -> None:
        raise StorageError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr(caching, "write_file", full)
    found = run(base, task_of(), tmp_path / "out")
    assert score(found) > 0
    assert any("Finished work is not kept: " in text for text in found.texts("caution"))
    assert capfd.readouterr() == ("", "")  # a quiet call writes nothing


# ---- equal documents


def test_new_ids_do_not_change_the_score_of_documents_that_look_equal(base, tmp_path) -> None:
    """Contracts with one preamble: a model that reads only that gives all of them the same vector.

    Which ten of them are kept must not decide either.
    """
    n_equal = 18
    texts = ["aa ab ac ad " * 8 + word for word in tiny.WORDS[100 : 100 + n_equal]]
    gains = sum(1 / math.log2(rank + 1) for rank in range(1, 11))
    for order in (1, -1):
        names = [f"x{i:02}" for i in range(n_equal)][::order]
        task = files_task(dict(zip(names, texts, strict=True)), {"q": texts[0]}, {"q": {names[0]: 1}})
        result = run(base, task, tmp_path / f"out{order}")
        assert score(result) == pytest.approx(100 * gains / n_equal)
        assert any("has ties" in sentence for sentence in result.texts("caution"))


def test_a_document_with_the_id_of_the_query_can_be_left_out_and_has_scores_of_its_own(base, tmp_path):
    texts = {f"d{i}": f"{word} ab ac" for i, word in enumerate(("ba", "bb", "bc"))}
    task = files_task(texts, texts, {"d0": {"d1": 1}, "d1": {"d2": 1}, "d2": {"d0": 1}})
    plain = run(base, task, tmp_path / "out", metric="nDCG@1")
    ruled = run(base, task, tmp_path / "ruled", metric="nDCG@1", ignore_identical_ids=True)
    assert score(plain) == 0 < score(ruled)
    assert any("--ignore-identical-ids" in sentence for sentence in plain.texts("caution"))
    both = run(base, task, tmp_path / "out", metric="nDCG@1", ignore_identical_ids=True)
    assert score(both) == score(ruled)


# ---- samples


def test_a_sample_and_all_documents_never_share_a_result_and_the_sample_is_said(tmp_path) -> None:
    lines: list[str] = []
    task = task_of([*TEXTS, *(tiny.text(40, seed) for seed in range(9, 40))])
    part = compare([LEXICAL], task, tmp_path, sample=9, on_message=lines.append)
    whole = compare([LEXICAL], task, tmp_path, on_message=lines.append)
    assert sum("a sample of 9 of 39 documents: scores are higher than on all" in text for text in lines) == 1
    assert part.identity != whole.identity and part.tasks == [f"{whole.tasks[0]}-sample9"]
    assert (part.n_documents, whole.n_documents) == (9, 39)
    assert part.tasks[0] not in part.advice.typed


# ---- no traceback


def test_a_folder_with_a_long_and_odd_name_is_compared_on_both_splits_and_a_full_disk_leaves_no_half_page(
    base, tmp_path, capsys
) -> None:
    name = f"mine+best{'m' * 236}"
    shutil.copytree(base, tmp_path / name)
    root, out = beir(tmp_path / "mine", TEXTS, QUERIES), tmp_path / "out"
    (root / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    line = ["compare", str(tmp_path / name), "--data", str(root), "--strategies", "gp", "--no-bm25", "--json"]
    line += ["--output-folder", str(out), "--eval-splits", "test", "dev"]
    assert cli.main(line) == 0
    said = capsys.readouterr().out
    assert {row["split"] for row in json.loads(said)["by_split"]} == {"test", "dev"}
    (path,) = out.rglob("compare.html")
    page = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(page) // 2, limits[1]))
    try:
        assert cli.main(line) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    again = capsys.readouterr()
    assert json.loads(again.out)["candidates"] == json.loads(said)["candidates"]
    assert "compare.html' cannot be written" in again.err and "Traceback" not in again.err
    assert path.read_bytes() == page
    assert not list(out.rglob("*.part"))
