"""What is kept belongs to one model, one data set, one rule and one machine, and is checked when it is read."""

import json
import math
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import pytest

from mteb_longembed import cli
from mteb_longembed.comparing import cache as caching
from mteb_longembed.comparing.cache import Cache
from mteb_longembed.comparing.candidates import named
from mteb_longembed.comparing.compare import Comparison
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.data.task import beir_task
from mteb_longembed.errors import StorageError
from mteb_longembed.evaluation.split import splits_of
from tests import tiny
from tests.comparing.conftest import compare
from tests.comparing.frames import LEXICAL
from tests.own_data import beir, judge


def folder(root: Path, change: Callable[[list[str]], list[str]] = list) -> Path:
    """Eight documents of 40 tokens; each query is the beginning of one."""
    texts = [tiny.text(40, i) for i in range(8)]
    return beir(root / "mine", change(texts), [" ".join(text.split()[:3]) for text in texts])


def rotate(texts: list[str]) -> list[str]:
    return texts[1:] + texts[:1]


def run(base: str, task: Any, out: Path, **options: Any) -> Comparison:
    return compare([named(f"{base}+none")], task, out, **options)


def command(base: str, root: Path, out: Path, *more: str) -> list[str]:
    """The command that compares the base and `gp` on a folder."""
    options = ["--strategies", "gp", "--no-bm25", "--output-folder", str(out)]
    return ["compare", base, "--data", str(root), *options, *more]


def score(comparison: Comparison) -> float:
    return float(comparison.summary["score"].iloc[0])


# ---- identity


def test_scores_of_other_data_another_revision_and_without_a_passage_are_not_used(base, tmp_path) -> None:
    root = folder(tmp_path)
    first = run(base, beir_task(root), tmp_path / "out")
    (split,) = splits_of(beir_task(root))
    meta = mteb.get_model_meta(f"{base}+none")
    cache = Cache(tmp_path / "out")
    assert cache.find(meta, split) is not None
    assert cache.find(meta.model_copy(update={"revision": "other"}), split) is None
    changed = run(base, beir_task(folder(tmp_path, rotate)), tmp_path / "out")
    fresh = run(base, beir_task(folder(tmp_path, rotate)), tmp_path / "fresh")
    assert score(changed) == score(fresh) != score(first)
    judged = run(base, beir_task(judge(root, "q0\td0\t1\t0\t5")), tmp_path / "out")
    assert "passage@1" not in changed.summary and "passage@1" in judged.summary


def test_a_deeper_metric_is_never_made_of_what_a_shallower_one_has_kept(base, tmp_path) -> None:
    def task() -> Any:
        return beir_task(folder(tmp_path))

    shallow = run(base, task(), tmp_path / "out", metric=["nDCG@1"])
    after = run(base, task(), tmp_path / "out", metric=["nDCG@10", "R@20"])
    alone = run(base, task(), tmp_path / "alone", metric=["nDCG@10", "R@20"])
    assert score(after) == score(alone) != score(shallow)
    assert after.summary["R@20"].item() == 100
    kept = list((tmp_path / "out" / "scores").rglob("*.parquet"))
    assert len(kept) == 2


def test_a_cost_belongs_to_its_machine_device_threads_and_versions(base, tmp_path, monkeypatch) -> None:
    splits = splits_of(beir_task(folder(tmp_path)))
    meta = mteb.get_model_meta(f"{base}+none")
    cache = Cache(tmp_path / "out")

    def kept(device: str) -> Cost:
        return cache.cost(meta, splits, device, Cost)

    cache.cost(meta, splits, "cpu", lambda: Cost(tokens=5, device="cpu"))
    assert kept("cpu") == Cost(tokens=5, device="cpu")
    assert kept("cuda") == Cost()
    for module, name in ((caching.platform, "node"), (caching.torch, "get_num_threads")):
        with monkeypatch.context() as other:
            other.setattr(module, name, lambda: "another")
            assert kept("cpu") == Cost()
    for module, name, value in (
        (caching, "version", lambda name: "9.9"),
        (caching.torch, "__version__", "9.9"),
    ):
        with monkeypatch.context() as other:
            other.setattr(module, name, value)
            assert kept("cpu") == Cost()


def test_scores_that_are_damaged_are_made_again(base, tmp_path) -> None:
    task, out = beir_task(folder(tmp_path)), tmp_path / "out"
    first = run(base, task, out)
    (path,) = (out / "scores").rglob("*.parquet")
    for n_bytes in (100, None):
        whole = bytearray(path.read_bytes())
        whole[40] ^= 1
        path.write_bytes(whole[:n_bytes])
        assert score(run(base, task, out)) == score(first)
    (again,) = (out / "scores").rglob("*.parquet")
    assert again == path


def test_a_disk_that_keeps_no_scores_does_not_take_the_answer(base, tmp_path, monkeypatch) -> None:
    def full(path: Path, _: object) -> None:
        raise StorageError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr(caching, "write_file", full)
    found = run(base, beir_task(folder(tmp_path)), tmp_path / "out")
    assert score(found) > 0
    assert any("Finished work is not kept: " in text for text in found.texts("caution"))


# ---- equal documents


def test_new_ids_do_not_change_the_score_of_documents_that_look_equal(base, tmp_path) -> None:
    """Contracts with one preamble: a model that reads only that gives all of them the same vector.

    Which ten of them are kept must not decide either.
    """
    n_equal = 18
    preamble = "aa ab ac ad " * 8
    texts = [f"{preamble}{word}" for word in tiny.WORDS[100 : 100 + n_equal]]
    scores = []
    for order in (1, -1):
        root = beir(tmp_path / str(order), texts, [texts[0]])
        names = [f"x{i:02}" for i in range(n_equal)][::order]
        for path in (root / "corpus.jsonl", root / "qrels" / "test.tsv"):
            text = path.read_text()
            for index in reversed(range(n_equal)):
                text = text.replace(f"d{index}\t", f"{names[index]}\t").replace(
                    f'"d{index}"', f'"{names[index]}"'
                )
            path.write_text(text)
        result = run(base, beir_task(root), tmp_path / f"out{order}")
        scores.append(score(result))
        assert any("equal scores" in sentence for sentence in result.texts("caution"))
    gains = sum(1 / math.log2(rank + 1) for rank in range(1, min(n_equal, 10) + 1))
    assert scores == [pytest.approx(100 * gains / n_equal)] * 2


def test_a_document_with_the_id_of_the_query_can_be_left_out_and_has_scores_of_its_own(base, tmp_path):
    texts = [f"{word} ab ac" for word in ("ba", "bb", "bc")]
    root = beir(tmp_path / "data", texts, texts)
    queries = root / "queries.jsonl"
    queries.write_text(queries.read_text().replace('"q', '"d'))
    judge(root, "d0\td1\t1", "d1\td2\t1", "d2\td0\t1")
    options = {"metric": ["nDCG@1"]}
    plain = run(base, beir_task(root), tmp_path / "out", **options)
    ruled = run(base, beir_task(root), tmp_path / "ruled", ignore_identical_ids=True, **options)
    assert score(plain) == 0 < score(ruled)
    assert any("--ignore-identical-ids" in sentence for sentence in plain.texts("caution"))
    assert not any("--ignore-identical-ids" in sentence for sentence in ruled.texts("caution"))
    both = run(base, beir_task(root), tmp_path / "out", ignore_identical_ids=True, **options)
    assert score(both) == score(ruled)


# ---- samples


def test_a_sample_and_all_documents_never_share_a_result_and_the_sample_is_said(tmp_path) -> None:
    texts = [tiny.text(40, seed) for seed in range(40)]
    root = beir(tmp_path, texts, [text[:80] for text in texts[:2]])
    lines: list[str] = []
    options: dict[str, Any] = {"on_message": lines.append}
    task = beir_task(root)
    part = compare([LEXICAL], task, tmp_path, sample=6, **options)
    whole = compare([LEXICAL], task, tmp_path, **options)
    assert sum("a sample of 6 of 40 documents: scores are higher than on all" in text for text in lines) == 1
    assert part.identity != whole.identity and part.tasks == [f"{whole.tasks[0]}-sample6"]
    assert (part.n_documents, whole.n_documents) == (6, 40)
    assert part.tasks[0] not in part.advice.typed


def test_a_quiet_call_writes_nothing(base, tmp_path, capfd) -> None:
    run(base, beir_task(folder(tmp_path)), tmp_path / "out")
    assert capfd.readouterr() == ("", "")


# ---- no traceback


def test_a_folder_with_a_long_and_odd_name_is_compared_on_both_splits_and_a_full_disk_leaves_no_half_page(
    base, tmp_path, capsys
) -> None:
    name = f"mine+best{'m' * 236}"
    shutil.copytree(base, tmp_path / name)
    root, out = folder(tmp_path), tmp_path / "out"
    (root / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    line = command(str(tmp_path / name), root, out, "--eval-splits", "test", "dev")
    assert cli.main([*line, "--json"]) == 0
    said = capsys.readouterr().out
    assert {row["split"] for row in json.loads(said)["by_split"]} == {"test", "dev"}
    (path,) = out.rglob("compare.html")
    page = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(page) // 2, limits[1]))
    try:
        assert cli.main([*line, "--json"]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    again = capsys.readouterr()
    assert json.loads(again.out)["candidates"] == json.loads(said)["candidates"]
    assert "compare.html' cannot be written" in again.err and "Traceback" not in again.err
    assert path.read_bytes() == page
    assert not list(out.rglob("*.part"))
