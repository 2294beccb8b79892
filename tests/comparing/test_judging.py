"""Judging on a page: the order of documents, the page in a browser, its arithmetic, and what comes after it."""

import base64
import json
import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pandas as pd
import pytest

import mteb_longembed
from mteb_longembed import cli
from mteb_longembed.comparing import judging
from mteb_longembed.comparing.comparison import Comparison
from mteb_longembed.comparing.judging import Judging
from mteb_longembed.comparing.ranked import SavedRankings
from mteb_longembed.comparing.summary import resamples_of
from mteb_longembed.data.task import files_task
from mteb_longembed.encoders.batching import Engine
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation import resampling
from mteb_longembed.evaluation.evaluate import DEPTH, evaluate, ranked_rows
from mteb_longembed.evaluation.resampling import resample
from mteb_longembed.evaluation.split import splits_of
from mteb_longembed.names import Identity
from tests import tiny
from tests.browser import CHROMIUM, Page, browser
from tests.comparing.frames import fake

NODE = shutil.which("node")
SCRIPT = Path(judging.__file__).with_name("judge.js")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \" ' <b>bold</b>"
in_node = pytest.mark.skipif(NODE is None, reason="needs node")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
#: 40 documents of 12 words, about 30 of which somebody asks; the second word of a question is misleading.
DOCUMENTS = {f"d{i}": tiny.text(12, i) for i in range(40)}
QUESTIONS = {
    f"q{i}": f"{DOCUMENTS[f'd{i}'].split()[2]} {DOCUMENTS[f'd{i + 9}'].split()[4]}" for i in range(30)
}


def relevant(several: bool) -> dict[str, dict[str, int]]:
    """The judgements of each question: one right document, or up to three with two grades."""
    judged = {f"q{i}": {f"d{i}": 2} for i in range(30)}
    if several:
        for i in range(30):
            judged[f"q{i}"] |= {f"d{(i + 9) % 40}": 1, f"d{(i + 3) % 40}": 2}
    return judged


@pytest.fixture(scope="module")
def runs() -> dict[str, dict[str, dict[str, float]]]:
    """Three rankings of 12 documents for each question: a good one, one that is often second, and a poor one."""
    draw = random.Random(5)
    rankings: dict[str, dict[str, dict[str, float]]] = {"good": {}, "fair": {}, "poor": {}}
    for i in range(30):
        for name, places in (("good", (0, 0, 0, 1)), ("fair", (0, 1, 2)), ("poor", (2, 5, 9))):
            others = [f"d{j}" for j in draw.sample(range(40), 12) if j != i]
            others.insert(draw.choice(places), f"d{i}")
            rankings[name][f"q{i}"] = {key: float(20 - rank) for rank, key in enumerate(others)}
    return rankings


def compare(out: Path, runs: Any, models: Any = (), **data: Any) -> Comparison:
    given = {
        "corpus": DOCUMENTS,
        "queries": QUESTIONS,
        "bm25": False,
        "show": False,
        "output_folder": out,
        **data,
    }
    return mteb_longembed.compare(models, runs=runs, on_message=lambda text: None, **given)


def content(path: Path) -> dict[str, Any]:
    """The data of a page: a line for all but passages and texts, one for each question, and one for each document."""
    (packed,) = re.findall(r'id="data">([^<]*)<', path.read_text(encoding="utf-8"))
    data, *parts = map(json.loads, zlib.decompress(base64.b64decode(packed)).decode().split("\n"))
    n = len(data["questions"])
    return {**data, "passages": parts[:n], "texts": parts[n:]}


def node(script: str, value: Any) -> Any:
    """What an expression makes of a value, with the functions of the page in `page`."""
    text = f"const page = require({json.dumps(str(SCRIPT))});\nconst value = JSON.parse(require('fs').readFileSync(0));"
    made = subprocess.run(
        [str(NODE), "-e", f"{text}\nconsole.log(JSON.stringify({script}));"],
        input=json.dumps(value), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(made.stdout)


# ---- which documents are shown


@pytest.mark.parametrize("name", ["LongEmbedNeedle", "LongEmbedPasskey"])
def test_the_first_right_document_is_found_within_three_looks(name: str, tmp_path: Path) -> None:
    task = mteb.get_task(name, eval_splits=["test_256"])
    task.load_data()
    data = task.dataset["default"]["test_256"]
    queries = {row["id"]: row["text"] for row in data["queries"].select(range(20))}
    wanted = {key for query in queries for key in data["relevant_docs"][query]}
    corpus = {row["id"]: row["text"] for row in data["corpus"] if row["id"] in wanted}
    found = compare(tmp_path, {}, "mini-ape", corpus=corpus, queries=queries, bm25=True).judging
    assert found is not None and len(found.candidates) == 10
    looks = []
    for query, order in found.orders().items():
        (right,) = (key for key, grade in data["relevant_docs"][query].items() if grade > 0)
        looks.append(order.index(right) + 1)
    assert np.mean(looks) <= 3 and np.median(looks) == 1


def test_variants_of_a_method_share_one_vote_and_ties_have_one_random_order(tmp_path: Path, runs) -> None:
    hybrid = "m+hybrid@1024"
    names = [f"{hybrid}:fusion=bm25,lexical_weight={weight:g}" for weight in (0.5, 2)]
    candidates = [fake(name, "fusion") for name in [*names, "m+late@1024"]]
    orders = [["a", "b"], ["a", "b"], ["b", "c"]]
    rankings = {
        one.id: pd.DataFrame({"query": ["x"], "first": [ids]})
        for one, ids in zip(candidates, orders, strict=True)
    }
    (split,) = splits_of(files_task({key: key for key in "abc"}, {"q": "x"}, None))
    # a: 1, b: 1/2 + 1, c: 1/2
    assert Judging(split=split, candidates=candidates, rankings=rankings).orders() == {"q": ["b", "a", "c"]}
    tied = [["d0", "d1"], ["d1", "d0"]]
    two = [candidates[0], candidates[2]]
    rankings = {
        one.id: pd.DataFrame({"query": list(QUESTIONS.values()), "first": [ids] * 30})
        for one, ids in zip(two, tied, strict=True)
    }
    (split,) = splits_of(files_task(DOCUMENTS, QUESTIONS, None))
    firsts = [
        [order[0] for order in Judging(split=split, candidates=two, rankings=rankings).orders().values()]
        for _ in range(2)
    ]
    assert firsts[0] == firsts[1] and 5 < firsts[0].count("d0") < 25


# ---- rankings are kept


class Scores:
    """A scorer with a fixed matrix."""

    name = "me/fixed"
    revision = "1"

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix

    def fit(self, documents: Any) -> None:
        pass

    def scores(self, queries: Any) -> np.ndarray:
        return self.matrix

    def passages(self, queries: Any, indices: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("kind", ["distinct", "mostly zero", "ties across the last", "few are ranked"])
def test_kept_rankings_give_the_same_scores(kind: str) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(6, 400))
    if kind == "mostly zero":
        matrix[:, 4:] = 0
    elif kind == "ties across the last":
        matrix = matrix.round(1)
    elif kind == "few are ranked":
        matrix[:, 20:] = -np.inf
    documents = {f"d{i}": f"text {i}" for i in range(400)}
    judged = {f"q{i}": {f"d{j}": 1 + j % 2 for j in (i, 50 + i, 390)} for i in range(6)}
    (split,) = splits_of(files_task(documents, {key: key for key in judged}, judged))
    scorer = Scores(matrix)
    rows = ranked_rows(scorer, split.documents, list(split.judged_queries.values()), 1e-6)
    assert max(map(len, rows["documents"])) < 150 and rows["first"].map(len).between(1, 10).all()
    columns = ["query", "score", "is_tied", "top_document"]
    kept = evaluate(SavedRankings(Identity(scorer.name, scorer.revision), rows), split)
    assert kept[columns].equals(evaluate(scorer, split)[columns])
    assert DEPTH == 100


def test_judgements_that_come_later_encode_nothing_and_score_as_without_a_page(
    base, data, tmp_path, monkeypatch
) -> None:
    files = {"corpus": data / "corpus.jsonl", "queries": data / "queries.jsonl", "bm25": True}
    ranked = compare(tmp_path / "kept", {}, base, **files)
    assert not ranked.is_judged and ranked.to_dataframe().empty and "nobody has judged them" in repr(ranked)
    assert ranked.judging is not None and len(ranked.judging.candidates) > 8

    def refuse(*args: Any) -> Any:
        raise AssertionError("something was encoded")

    monkeypatch.setattr(Engine, "_forward", refuse)
    qrels = data / "qrels/test.tsv"
    later = compare(tmp_path / "kept", {}, base, **files, qrels=qrels)
    monkeypatch.undo()
    labels = [row.id for row in later.rows]
    assert set(labels) == {one.id for one in ranked.judging.candidates} and not later.texts("left out")
    alone = compare(tmp_path / "alone", {}, base, **files, qrels=qrels, quick=True)
    scores = later.summary["score"]
    assert scores[alone.summary.index].to_dict() == alone.summary["score"].to_dict()
    assert alone.judging is None and alone.advice.verdict != "cautious"
    with pytest.raises(InputError, match="compare with judge=True"):
        alone.judge(tmp_path / "judge.html")


# ---- what follows from judgements


def test_few_questions_keep_the_default_unless_another_one_is_better_by_a_standard_error(
    tmp_path, runs
) -> None:
    first = {"fair": runs["fair"], "good": runs["good"]}
    assert not compare(tmp_path, first).is_judged
    few = {key: of for key, of in relevant(False).items() if int(key[1:]) < 8}
    found = compare(tmp_path, first, qrels=few)
    samples = resamples_of(found.scores, ["run/fair", "run/good"])
    difference = samples.difference("run/fair", "run/good").scaled(100)
    spread = (
        f"run/good leads run/fair by {difference.mean:.1f} ({difference.low:+.0f}, {difference.high:+.0f})"
    )
    assert found.advice.verdict == "cautious" and spread in found.advice.use
    is_better = samples.is_better("run/fair", "run/good")
    chosen = "good" if is_better else "fair"
    assert found.advice.recommended == f"run/{chosen}"
    assert found.advice.use.startswith(f"8 questions: {'use' if is_better else 'stay with'} run/{chosen}; ")
    # the same candidates in the other order: the good one is the default now
    other = compare(tmp_path, dict(reversed(first.items())), qrels=few)
    assert other.advice.use.startswith("8 questions: stay with run/good; run/good leads run/fair by ")
    assert found.summary["n_unjudged"].between(8.9, 9.1).all()
    assert "nobody judged 9.0 to 9.0" in " ".join(found.texts("caution"))


@pytest.mark.parametrize(("gaps", "is_better"), [([1] * 6 + [0] * 4, True), ([1, -1] * 5 + [1], False)])
def test_a_standard_error_is_of_clusters(gaps: list[int], is_better: bool) -> None:
    scores = [[0.5] * len(gaps), [0.5 + gap / 4 for gap in gaps]]
    samples = resample(["a", "b"], [scores])
    values = np.array(scores[1]) - scores[0]
    error = values.std(ddof=1) / len(gaps) ** 0.5
    assert samples.is_better("a", "b") is bool(values.mean() > error) is is_better
    # where all questions are about one document, nothing is better; neither if one question makes all the difference
    assert not resample(["a", "b"], [scores], [[["one"]] * len(gaps)]).is_better("a", "b")
    alone = [[0.5] * 9, [1.0, *[0.5] * 8]]
    assert not resample(["a", "b"], [alone]).is_better("a", "b")


def test_a_later_method_is_asked_about_only_what_the_first_ones_did_not_show(tmp_path, runs) -> None:
    first = compare(tmp_path, {"good": runs["good"]})
    assert first.judging is not None
    judged = {}
    for query, order in first.judging.orders().items():
        right = f"d{query[1:]}"
        judged[query] = {key: 2 * (key == right) for key in order[: order.index(right) + 1]}
    judged["q29"] = {"d1": 0}  # no right one yet
    both = compare(tmp_path, {"good": runs["good"], "poor": runs["poor"]}, qrels=judged, judge=True)
    assert both.is_judged and both.judging is not None
    page = content(both.judge(tmp_path / "judge.html"))
    assert len(page["questions"]) == 30
    n_asked = 0
    for question in page["questions"]:
        keys = [page["documents"][d]["id"] for d in question["pool"]]
        known = {page["documents"][int(d)]["id"]: grade for d, grade in question["known"].items()}
        assert known == judged[question["id"]]
        if question["id"] != "q29":
            asked = [key for key in keys[: keys.index(f"d{question['id'][1:]}")] if key not in known]
            assert not set(asked) & set(first.judging.orders()[question["id"]][:1])
            n_asked += len(asked)
    # the poor method is right at place 3 or later, and its first documents come before few right ones
    assert 0 < n_asked < 60
    with pytest.raises(InputError, match="--judge asks about your own documents"):
        mteb_longembed.compare("bm25", tasks=["LongEmbedPasskey"], judge=True, output_folder=tmp_path)
    with pytest.raises(InputError, match="--sample keeps all judged documents"):
        compare(tmp_path, {}, "bm25", sample=4)


# ---- the arithmetic of the page


@in_node
@pytest.mark.parametrize(("n", "per_cluster"), [(8, 1), (30, 1), (30, 3), (200, 1)])
def test_intervals_on_the_page_are_the_ones_of_python_within_half_a_point(
    n, per_cluster, monkeypatch
) -> None:
    # otherwise Python's own sampling error is half a point where intervals are wide
    monkeypatch.setattr(resampling, "N_RESAMPLES", 100_000)
    rng = np.random.default_rng(n)
    scores = np.clip(rng.normal([[0.8], [0.75], [0.5]], 0.2, size=(3, n)), 0, 1)
    scores[1] = 0.7 * scores[0] + 0.3 * scores[1]
    labels = [[f"d{i // per_cluster}"] for i in range(n)]
    samples = resample(["a", "b", "c"], [scores], [labels])
    script = """(() => {
      const found = page.resample(value.scores, value.labels);
      return { n: found.n, means: [0, 1, 2].map(found.mean), differences: [1, 2].map((c) => found.difference(c, 0)),
               better: [[1, 0], [0, 1], [2, 0]].map(([a, b]) => found.isBetter(a, b)), gain: found.gain(2) };
    })()"""
    found = node(script, {"scores": scores.tolist(), "labels": labels})
    assert found["n"] == samples.n_clusters
    pairs = [(samples.mean(name), made) for name, made in zip("abc", found["means"], strict=True)]
    pairs += [(samples.difference(a, "a"), made) for a, made in zip("bc", found["differences"], strict=True)]
    for wanted, made in pairs:
        assert [100 * made[end] for end in ("mean", "low", "high")] == pytest.approx(
            [100 * wanted.mean, 100 * wanted.low, 100 * wanted.high], abs=0.5
        )
    assert found["better"] == [samples.is_better(a, b) for a, b in ("ba", "ab", "ca")]
    assert found["gain"] >= samples.means["a"] - samples.means["c"] - 0.01


@in_node
def test_scores_on_the_page_are_the_ones_of_python_also_of_tied_documents(tmp_path, runs) -> None:
    tied = {key: {document: score // 3 for document, score in of.items()} for key, of in runs["good"].items()}
    given = {"good": runs["good"], "tied": tied, "poor": runs["poor"]}
    judged = relevant(True)
    ranked = compare(tmp_path, given)
    assert ranked.judging is not None
    page = content(ranked.judge(tmp_path / "judge.html"))
    log = [[query, key, grade, 1] for query, of in judged.items() for key, grade in of.items()]
    shown = {one["id"] for one in page["documents"]}
    assert {key for _, key, _, _ in log} <= shown
    script = """(() => {
      const state = page.replay(value.page, value.log);
      const found = page.standingOf(value.page, state.map((one) => one.grades));
      return [0, 1, 2].map((c) => 100 * found.samples.mean(c).mean);
    })()"""
    found = node(script, {"page": page, "log": log})
    scores = compare(tmp_path, given, qrels=judged).summary["score"]
    names = [one.id for one in ranked.judging.candidates]
    pools = {query: set(order) for query, order in ranked.judging.orders().items()}
    assert any(key not in pools[query] for query, of in judged.items() for key in of)
    assert found == pytest.approx([scores[name] for name in names], abs=0.05)


@in_node
def test_agreement_of_two_people_is_cohens_kappa_and_a_file_with_one_score_is_binary() -> None:
    # Cohen 1960: agreement 0.7 by chance 0.5
    mine = [[str(i), 2 * (i < 25)] for i in range(50)]
    theirs = [[str(i), 2 * (i < 20 or 25 <= i < 35)] for i in range(50)] + [["other", 2]]
    found = node("page.kappaOf(new Map(value[0]), new Map(value[1]))", [mine, theirs])
    assert found == {"n": 50, "agreement": 0.7, "kappa": pytest.approx(0.4)}
    heading = "query-id\tcorpus-id\tscore\n"
    assert node("page.readQrels(value)", f"{heading}q1\td1\t1\nq1\td2\t0\n") == [
        ["q1", "d1", 2],
        ["q1", "d2", 0],
    ]
    graded = node("page.readQrels(value)", f"{heading}q1\td1\t1\r\nq1\td2\t3\r\nq1\td3\t-1\r\n")
    assert graded == [["q1", "d1", 1], ["q1", "d2", 3], ["q1", "d3", 0]]


# ---- the page


def page_of(tmp_path: Path, corpus: Any = None, runs: Any = None, **options: Any) -> Path:
    return compare(tmp_path, runs, corpus=corpus or DOCUMENTS, **options).judge(
        tmp_path / "judge.html", "type this"
    )


def test_texts_are_data_and_only_the_script_of_the_page_may_run(tmp_path, runs) -> None:
    hostile = {key: {"text": f"{HOSTILE} {text}", "title": HOSTILE} for key, text in DOCUMENTS.items()}
    rows = [{"_id": key, **row} for key, row in hostile.items()]
    text = page_of(tmp_path, rows, runs).read_text()
    assert "alert(" not in text and text.count("<script") == 2
    assert "default-src 'none'" in text and not re.search(r"https?://|\son\w+=", text)
    data = content(tmp_path / "judge.html")
    assert data["documents"][0]["title"] == HOSTILE[:120] and data["command"] == "type this"


def test_whole_texts_are_cut_until_the_page_is_small_and_it_says_where(tmp_path, runs) -> None:
    draw = random.Random(0)
    long = {key: " ".join(str(draw.random()) for _ in range(9_000)) for key in DOCUMENTS}
    path = page_of(tmp_path, long, runs, queries={key: QUESTIONS[key] for key in ("q0", "q1", "q2")})
    assert path.stat().st_size <= judging.MOST_BYTES
    page = content(path)
    text, cut = page["texts"][0]
    n, whole = len(text), len(long[page["documents"][0]["id"]])
    assert 1_000 < n < whole
    assert cut == f"Cut after {n:,} of {whole:,} characters; your file has the rest."


def test_without_questions_the_page_takes_typed_ones(tmp_path, capsys, monkeypatch) -> None:
    (tmp_path / "docs.jsonl").write_text('{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two"}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["mteb-longembed", "compare", "bm25", "--corpus", "docs.jsonl"])
    assert cli.main(["compare", "bm25", "--corpus", "docs.jsonl"]) == 0
    printed = capsys.readouterr().out
    assert "type: mteb-longembed compare bm25 --corpus docs.jsonl --queries typed.jsonl\n" in printed
    (path,) = tmp_path.rglob("judge.html")
    assert content(path)["questions"] == []
    with pytest.raises(InputError, match="--corpus, --queries and --qrels belong together"):
        mteb_longembed.compare("bm25", queries={"q": "a"})


def test_the_command_writes_the_page_and_says_what_to_type_and_existing_judgements_are_kept(
    tmp_path, capsys, monkeypatch
) -> None:
    (tmp_path / "docs.jsonl").write_text(
        "".join(json.dumps({"_id": k, "text": t}) + "\n" for k, t in DOCUMENTS.items())
    )
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"_id": k, "text": t}) + "\n" for k, t in QUESTIONS.items())
    )
    (tmp_path / "some.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td0\t0\nq2\td2\t1\n")
    monkeypatch.chdir(tmp_path)
    line = ["compare", "bm25", "--corpus", "docs.jsonl", "--queries", "q.jsonl"]
    for more in ([], ["--qrels", "some.tsv", "--judge"]):
        monkeypatch.setattr("sys.argv", ["mteb-longembed", *line, *more])
        assert cli.main([*line, *more]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("Open results/comparisons/docs-") and "judge.html in a browser" in last
        assert last.endswith(f"type: mteb-longembed {' '.join(line)} --qrels qrels.tsv")
    path = tmp_path / re.findall(r"Open (\S+) in", last)[0]
    known = {one["id"]: one["known"] for one in content(path)["questions"] if one["known"]}
    assert set(known) == {"q0", "q1", "q2"} and list(known["q1"].values()) == [0]
    assert cli.main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["page"].endswith("judge.html")


# ---- in a browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(chromium, tmp_path) -> Iterator[Page]:
    """The one browser, with downloads of its own, and without what other tests have judged."""
    chromium.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chromium.events.clear()
    yield chromium
    chromium.run("localStorage.clear()")
    chromium.send("Emulation.clearDeviceMetricsOverride")
    chromium.send("Emulation.setEmulatedMedia", features=[])


@pytest.fixture(scope="module")
def ranked(tmp_path_factory, runs) -> Comparison:
    return compare(tmp_path_factory.mktemp("ranked"), runs)


def judge_all(page: Any, judged: dict[str, dict[str, int]], goes_on: bool) -> int:
    """Judge every question as the judgements say, and return the number of looks."""
    page.run(f"window.judged = {json.dumps(judged)}; window.goesOn = {json.dumps(goes_on)}")
    return page.run(
        """(() => {
          const $ = (id) => document.getElementById(id);
          const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
          let looks = 0;
          for (let n = 0; n < 30; n++) {
            const key = `q${Number($("number").textContent.match(/\\d+/)[0]) - 1}`;
            if (goesOn) press("j");
            while (!$("document").hidden) {
              press({ 2: "1", 1: "2" }[judged[key][$("title").textContent]] || "0");
              looks++;
            }
            press("n");
          }
          return looks;
        })()"""
    )


@in_browser
@pytest.mark.parametrize("goes_on", [False, True])
def test_thirty_questions_judged_in_a_browser_score_as_the_judgements_themselves(
    goes_on, tmp_path, runs, ranked, page
) -> None:
    judged = relevant(goes_on)
    page.open(ranked.judge(tmp_path / "judge.html"))
    page.wait("document.getElementById('question').textContent")
    looks = judge_all(page, judged, goes_on)
    page.wait("document.getElementById('verdict').textContent.includes('30 questions')")
    assert page.run("document.getElementById('count').textContent") == "30 of 30 questions done"
    page.run("document.getElementById('download').click()")
    file = tmp_path / "qrels.tsv"
    page.run("new Promise((done) => setTimeout(done, 300))")
    for _ in range(100):
        if file.exists():
            break
        page.run("new Promise((done) => setTimeout(done, 50))")
    loud = [
        event for event in page.events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
    ]
    assert not loud
    assert (looks > 300) if goes_on else (30 <= looks < 120)
    metric = "nDCG@10" if goes_on else "RR@10"
    pools = {query: set(order) for query, order in ranked.judging.orders().items()}
    # what no method finds cannot be judged
    wanted = {query: {key: of[key] for key in of if key in pools[query]} for query, of in judged.items()}
    downloaded = compare(tmp_path / "one", runs, qrels=file, metric=metric)
    direct = compare(tmp_path / "two", runs, qrels=wanted, metric=metric)
    assert downloaded.summary["score"].to_dict() == direct.summary["score"].to_dict()
    assert downloaded.setting.n_queries == 30


@in_browser
def test_hostile_texts_are_shown_and_do_nothing_and_work_survives_undo_and_a_reload(
    tmp_path, runs, page
) -> None:
    rows = [{"_id": key, "title": HOSTILE, "text": f"{HOSTILE} {text}"} for key, text in DOCUMENTS.items()]
    path = page_of(
        tmp_path, rows, runs, queries={key: f"{HOSTILE} {text}" for key, text in QUESTIONS.items()}
    )
    text_of = "document.getElementById('{}').textContent"
    page.open(path)
    page.wait(text_of.format("question"))
    assert HOSTILE in page.run(text_of.format("question"))
    assert page.run(text_of.format("title")) == HOSTILE[:120]
    page.press("t")
    assert page.run("document.getElementById('whole').open")
    assert page.run("document.querySelectorAll('img, b, script').length") == 2  # its data, its script
    first = page.run(text_of.format("place"))
    page.press("0")
    page.press("u")
    assert page.run(text_of.format("place")) == first
    page.press("s")
    assert page.run(text_of.format("number")) == "Question 2"
    page.press("1")
    assert page.run("document.getElementById('done').hidden") is False
    page.press("ArrowLeft")
    assert page.run(text_of.format("number")) == "Question 1, skipped"
    page.open(path)
    page.wait(f"{text_of.format('count')}.startsWith('2 of 30')")
    assert page.run(text_of.format("number")) == "Question 3"
    page.send("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
    assert page.run("document.documentElement.scrollWidth") <= 400
    # the policy of the page lets nothing be loaded
    refused = page.run("fetch('https://example.org').then(() => false, () => true)")
    assert refused and not [e for e in page.events if e["method"] == "Runtime.exceptionThrown"]


@in_browser
def test_another_persons_file_gives_kappa_and_the_copy_is_the_download(tmp_path, ranked, page) -> None:
    page.open(ranked.judge(tmp_path / "judge.html"))
    page.wait("document.getElementById('question').textContent")
    judge_all(page, relevant(False), False)
    text_of = "document.getElementById('{}').textContent"
    page.run("document.getElementById('copy').click()")
    page.wait(f"{text_of.format('copy')} !== 'Copy'")
    copied = page.run("document.getElementById('copied').value")
    page.run("document.getElementById('download').click()")
    file = tmp_path / "qrels.tsv"
    for _ in range(100):
        if file.exists():
            break
        page.run("new Promise((done) => setTimeout(done, 50))")
    assert copied == file.read_text() and copied.count("\n") > 30
    # the other person agrees about all but one, and has judged one document more
    lines = copied.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("q0\t") and line.endswith("\t2"))
    lines[at] = f"{lines[at][:-1]}0"
    (tmp_path / "other.tsv").write_text("\n".join([*lines, "q1\td30\t2", ""]))
    root = page.send("DOM.getDocument")["root"]["nodeId"]
    node = page.send("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    page.send("DOM.setFileInputFiles", nodeId=node, files=[str(tmp_path / "other.tsv")])
    page.wait(text_of.format("agreement"))
    n = len(lines) - 1
    shares = [sum(line.endswith(f"\t{grade}") for line in copied.splitlines()[1:]) / n for grade in (0, 2)]
    theirs = [shares[0] + 1 / n, shares[1] - 1 / n]
    chance = float(np.dot(shares, theirs))
    kappa = (1 - 1 / n - chance) / (1 - chance)
    percent = f"{100 * (1 - 1 / n):.0f} % agree, Cohen's kappa {kappa:.2f}."
    said = page.run(text_of.format("agreement"))
    assert said == f"other.tsv: {n + 1} judgements. {n} judged by both: {percent}"
    page.run("document.getElementById('take').click()")
    page.run("document.getElementById('copy').click()")
    taken = page.run("document.getElementById('copied').value").splitlines()
    assert set(taken) == {*copied.splitlines(), "q1\td30\t2"}


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_have_names_and_the_page_fits_a_telephone_in_light_and_dark(
    scheme, tmp_path, ranked, page
) -> None:
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.send("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True)
    page.open(ranked.judge(tmp_path / "judge.html"))
    page.wait("document.getElementById('question').textContent")
    for key in "1n1n1":
        page.press(key)
    page.wait("document.getElementById('verdict').textContent")
    page.press("n")
    page.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert page.run("document.documentElement.scrollWidth") <= 400
    ink = page.run("getComputedStyle(document.body).color")
    assert ink == {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[scheme]
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "progressbar", "region", "article", "DisclosureTriangle", "heading"}
    shown = [one for one in nodes if not one["ignored"] and one["role"]["value"] in roles]
    names = [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in shown]
    assert [name for name in names if not name[1].strip()] == []
    assert {"Previous question", "Following question", "Copy", "Download qrels.tsv"} <= {
        name for _, name in names
    }
    assert sum(role == "button" for role, _ in names) >= 9
