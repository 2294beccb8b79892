"""What `compare` keeps belongs to one model, one data set and one evaluation, and is checked when it is read."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mteb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, mrr

from mteb_longembed import cli
from mteb_longembed.comparing.candidates import candidates_of
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.data.drawn_queries import draw_queries
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.scoring import main_metric, read_metric, score_queries
from mteb_longembed.tasks import LongEmbedPasskey
from tests import tiny
from tests.comparing.conftest import compare
from tests.own_data import beir, bm25


def folder(root: Path, change: Callable[[list[str]], list[str]] = list) -> Path:
    """Eight documents of 40 tokens; each query is the beginning of one."""
    texts = [tiny.text(40, i) for i in range(8)]
    return beir(root / "mine", change(texts), [" ".join(text.split()[:3]) for text in texts])


def rotate(texts: list[str]) -> list[str]:
    return texts[1:] + texts[:1]


def run(base: str, task: Any, out: Path, **options: Any) -> tuple[Comparison, list[str]]:
    messages: list[str] = []
    return compare(candidates_of(base)[:1], task, out, on_message=messages.append, **options), messages


def command(base: str, root: Path, out: Path, *more: str) -> list[str]:
    """The command that compares the base and `gp` on a folder."""
    options = ["--strategies", "gp", "--no-bm25", "--output-folder", str(out)]
    return ["compare", base, "--data", str(root), *options, *more]


def score(comparison: Comparison) -> float:
    return comparison.rows[0].score.mean


# ---- identity ------------------------------------------------------------------------------------------


def test_a_ranking_of_other_data_in_a_folder_of_the_same_name_is_not_used(base, tmp_path) -> None:
    first, _ = run(base, beir_task(folder(tmp_path)), tmp_path / "out")
    changed, _ = run(base, beir_task(folder(tmp_path, rotate)), tmp_path / "out")
    fresh, _ = run(base, beir_task(folder(tmp_path, rotate)), tmp_path / "fresh")
    assert score(changed) == score(fresh) != score(first)


def test_a_ranking_of_another_revision_of_a_model_is_not_used(base, tmp_path) -> None:
    task = beir_task(folder(tmp_path))
    run(base, task, tmp_path / "out")
    meta = mteb.get_model_meta(candidates_of(base)[0].name)
    evaluations = Evaluations(tmp_path / "out")
    assert evaluations.find(meta, task, "test") is not None
    assert evaluations.find(meta.model_copy(update={"revision": "other"}), task, "test") is None


def test_more_documents_in_a_ranking_are_another_evaluation(base, tmp_path) -> None:
    def task() -> Any:
        return beir_task(folder(tmp_path))

    shallow, _ = run(base, task(), tmp_path / "out", metric=["R@2"])
    deep, _ = run(base, task(), tmp_path / "out", metric=["R@20", "RR@2"])
    assert score(deep) == 100 >= score(shallow) and deep.metrics == ["R@20", "RR@2"]
    assert set(deep.rows[0].others) == {"RR@2"}
    files = list((tmp_path / "out").rglob("*_predictions.json"))
    assert len(files) == 2


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "half of the queries": lambda ranks: [ranks.pop(query) for query in list(ranks)[:4]],
    "NaN": lambda ranks: ranks["q0"].update(d0=float("nan")),
    "a list": lambda ranks: ranks["q0"].update(d0=[1.0]),
    "a text": lambda ranks: ranks["q0"].update(d0="1.0"),
    "an unknown document": lambda ranks: ranks["q0"].update(d99=1.0),
    "no scores": lambda ranks: ranks.update(q0=[]),
}


def test_a_ranking_that_is_not_complete_runs_again_and_that_is_said(base, tmp_path) -> None:
    task = beir_task(folder(tmp_path))
    first, _ = run(base, task, tmp_path / "out")
    (path,) = (tmp_path / "out").rglob("*_predictions.json")
    for name, damage in DAMAGE.items():
        saved = json.loads(path.read_text())
        damage(saved["default"]["test"])
        path.write_text(json.dumps(saved))
        second, messages = run(base, task, tmp_path / "out")
        assert score(second) == score(first), name
        assert any("is not complete, so it runs again." in sentence for sentence in messages), name


def test_what_is_left_out_is_said_and_on_the_page_and_in_json(base, tmp_path, capsys) -> None:
    root = folder(tmp_path, lambda texts: [*texts[:7], " "])
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t0\n")
    assert cli.main(command(base, root, tmp_path / "out")) == 0
    shown = capsys.readouterr()
    machine = json.loads(next((tmp_path / "out").rglob("compare.json")).read_text())
    page = next((tmp_path / "out").rglob("compare.html")).read_text()
    queries, documents = machine["counted"]
    assert queries.endswith("7 of 8 queries have no relevant document and are not scored.")
    assert documents.endswith("1 of 8 documents have no text.")
    for text in (shown.err, " ".join(shown.out.split()), page):
        assert queries in text and documents in text
    assert machine["metrics"] == ["nDCG@10"] and "nDCG@10" in page


def test_both_splits_of_a_folder_are_compared(base, tmp_path, capsys) -> None:
    root = folder(tmp_path)
    (root / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    assert cli.main(command(base, root, tmp_path / "out", "--json", "--eval-splits", "test", "dev")) == 0
    output = json.loads(capsys.readouterr().out)
    assert {key.rpartition("/")[2] for key in output["candidates"][0]["by_split"]} == {"test", "dev"}


# ---- metrics -------------------------------------------------------------------------------------------


class Judged:
    """The parts of a task that scoring needs."""

    ignore_identical_ids = skip_first_result = False

    def __init__(self, judged: dict[str, dict[str, int]]) -> None:
        self.metadata = LongEmbedPasskey.metadata.model_copy(update={"main_score": "ndcg_at_10"})
        self.dataset = {"default": {"test": {"relevant_docs": judged}}}


METRICS = {"nDCG": "ndcg_cut_", "R": "recall_", "P": "P_", "AP": "map_cut_", "RR": "mrr_"}
METRICS["Success"] = "success_"
ids = st.sampled_from([f"d{i}" for i in range(6)] + ["d10", "D1", "é"])


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(ids, st.integers(0, 3), min_size=1).filter(lambda d: any(d.values())),
    st.dictionaries(ids, st.sampled_from([0.0, 0.5, 0.5000000001, 1.0, -1.0]), min_size=1),
    st.integers(1, 10),
)
def test_each_metric_equals_mtebs_for_each_query_ties_included(judged, ranked, k) -> None:
    task: Any = Judged({"q": judged})
    expected = calculate_retrieval_scores({"q": ranked}, {"q": judged}, [k]).all_scores["q"]
    expected[f"mrr_{k}"] = mrr({"q": judged}, {"q": ranked}, [k])[f"MRR@{k}"][0]
    for ours, theirs in METRICS.items():
        metric = read_metric(f"{ours}@{k}")
        (value,) = score_queries(task, "test", {"default": {"q": ranked}}, metric).values()
        if ours == "RR" and len({round(x, 6) for x in ranked.values()}) < len(set(ranked.values())):
            continue  # trec_eval compares in single precision, mteb's own reciprocal rank in double
        assert value == pytest.approx(expected[f"{theirs}{k}"], abs=1e-9), ours


def test_metrics_have_the_names_of_both_and_others_are_refused() -> None:
    assert str(read_metric("mrr_at_10")) == "RR@10" and str(main_metric(LongEmbedPasskey())) == "nDCG@1"
    for text in ("F1@10", "nDCG", "nDCG@0", "nDCG@x", ""):
        with pytest.raises(InputError, match="a metric must be one of nDCG, R, P, AP, RR, Success at"):
            read_metric(text)


# ---- languages -----------------------------------------------------------------------------------------


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


def test_queries_are_drawn_by_characters_where_no_spaces_are() -> None:
    corpus = {"a": "北京的冬天很冷，经常下大雪。", "b": "上海的夏天又热又潮湿，大家都在家里。"}
    queries, answers = draw_queries(corpus, 2, language="zho-Hans")
    assert len(queries) == 2
    assert all(text in corpus[answers[query]] for query, text in queries.items())


# ---- limits and two at the same time --------------------------------------------------------------------

GROWTH = """
import json, resource, sys
from pathlib import Path
from mteb_longembed.comparing.evaluations import Evaluations
from mteb_longembed.data.task import files_task
folder = Path(sys.argv[1])
task = files_task(folder / "c.jsonl", folder / "q.jsonl", folder / "j.tsv")
evaluations = Evaluations(folder / "out")
evaluations.prepare(task)
evaluations.identity(task, "test")
print(len(task.dataset["default"]["test"]["corpus"]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_memory_for_documents_grows_with_their_text_and_no_faster(tmp_path) -> None:
    peaks = {}
    for n in (100, 1000, 2000):
        root = tmp_path / str(n)
        root.mkdir()
        with (root / "c.jsonl").open("w") as file:
            for i in range(n):
                file.write(json.dumps({"id": i, "text": f"{i} " + "lorem ipsum " * 4000}) + "\n")
        (root / "q.jsonl").write_text('{"id": "q", "text": "lorem"}\n')
        (root / "j.tsv").write_text("qid\tdoc_id\tscore\nq\t0\t1\n")
        done = subprocess.check_output([sys.executable, "-c", GROWTH, str(root)], text=True)
        documents, peaks[n] = map(int, done.split())
        assert documents == n
    text = 1000 * 48_000 / 1024  # KiB of a thousand documents
    # 100,000 documents of 10,000 tokens are 4.6 GiB of text, so three times the text leaves room for a model in 24 GiB
    assert peaks[2000] - peaks[1000] < 3 * text
    assert peaks[2000] - peaks[100] < 3 * 1.9 * text


QUIET_CALL = """
import json, sys
from pathlib import Path
import mteb_longembed
model, folder, scores = sys.argv[1:]
options = {"strategies": ["gp"], "show": False, "on_message": lambda sentence: None, "folder": folder}
found = mteb_longembed.compare(model, tasks=["LongEmbedPasskey"], eval_splits=["test_256"], **options)
assert found.passages
Path(scores).write_text(json.dumps({row.name: row.score.mean for row in found.rows}))
"""


def test_a_command_and_a_call_at_one_folder_share_work_and_lose_nothing_and_a_quiet_call_writes_nothing(
    base, tmp_path
) -> None:
    scores, out = tmp_path / "scores.json", str(tmp_path / "out")
    line = ["compare", base, "-t", "LongEmbedPasskey", "--eval-splits", "test_256"]
    line += ["--strategies", "gp", "--output-folder", out, "--json"]
    starts = (["-m", "mteb_longembed", *line], ["-c", QUIET_CALL, base, out, str(scores)])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MTEB_LONGEMBED_STORE": str(tmp_path / "store")}
    options = {"env": environment, "cwd": tmp_path, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, *start], **options) for start in starts]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[1] == ("", "")
    printed = {c["name"]: c["score"][0] for c in json.loads(outputs[0][0])["candidates"]}
    assert printed == json.loads(scores.read_text()) and len(printed) == 4
    assert len(list((tmp_path / "out").rglob("*_predictions.json"))) == 4


# ---- no traceback ---------------------------------------------------------------------------------------


def test_a_full_disk_at_the_page_leaves_no_half_page(base, tmp_path) -> None:
    out = tmp_path / "out"
    line = command(base, folder(tmp_path), out)
    assert cli.main(line) == 0
    (path,) = out.rglob("compare.html")
    page = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(page) // 2, limits[1]))
    try:
        assert cli.main(line) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == page
    assert not list(out.rglob("*.part"))


TOO_SHORT = "the target length must be at least the trained length of 16 tokens, got 8"


def test_options_that_cannot_be_are_said(base, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    line = ["compare", base, "--data", str(folder(tmp_path)), "--output-folder"]
    for options, message in (
        (["out", "--target", "8"], TOO_SHORT),
        (["out", "--target", "8", "--no-bm25"], TOO_SHORT),
        (["file", "--no-bm25"], "--output-folder is a folder, but"),
    ):
        assert cli.main([*line, str(tmp_path / options[0]), *options[1:]]) == 2
        assert message in capsys.readouterr().err


def test_a_cache_that_cannot_be_made_and_a_folder_that_is_gone_get_a_sentence(tmp_path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from mteb_longembed.cli import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "file").write_text("")
    for start, environment, message in (
        (["-c", code], {}, "the working directory does not exist any more"),
        (["-m", "mteb_longembed"], {"MTEB_CACHE": str(tmp_path / "file" / "x")}, "the system refuses"),
    ):
        line = [sys.executable, *start, "compare", "mini-rope", "-t", "LongEmbedPasskey", "--output-folder"]
        where = {"env": {**os.environ, **environment}, "cwd": gone if start[0] == "-c" else tmp_path}
        done = subprocess.run([*line, str(tmp_path / "out")], **where, capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_folder_with_a_very_long_name_costs_candidates_not_a_traceback(base, tmp_path, capsys) -> None:
    long = tmp_path / ("m" * 245)
    shutil.copytree(base, long)
    assert cli.main(command(str(long), folder(tmp_path), tmp_path / "out")) in (0, 2)
    assert "File name too long" in capsys.readouterr().err
