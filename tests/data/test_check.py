"""Own data: any valid data set reads the same from each format, and no mistake in a file changes a score unsaid."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mteb_longembed.data.check import read_documents, read_judgements
from mteb_longembed.data.task import beir_task, files_task
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.metrics import expected_score, group_ties
from mteb_longembed.evaluation.split import splits_of
from tests.own_data import (
    DOCUMENTS,
    HEADING,
    JUDGED,
    LINES,
    QUERY_ROWS,
    Rows,
    content,
    json_lines,
    write,
)

# ---- valid data ----------------------------------------------------------------------------------------

letters = st.characters(exclude_categories=["Cs"])
# a byte order mark at the start of a file is no part of the first id
name_letters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff")
names = st.text(name_letters, min_size=1, max_size=6).filter(str.strip)
texts = st.text(letters, max_size=20)


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[Rows, Rows, Rows]:
    ids, query_ids = (draw(st.lists(names, min_size=1, max_size=most, unique=True)) for most in (4, 3))
    documents = [{"_id": name, "title": draw(texts), "text": draw(texts)} for name in ids]
    queries = [{"_id": name, "text": draw(texts.filter(str.strip))} for name in query_ids]
    pairs = [(q["_id"], d["_id"]) for q in queries for d in documents]
    judged = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    scores = [1, *(draw(st.integers(-2, 3)) for _ in judged[1:])]
    return documents, queries, [
        {"query-id": q, "corpus-id": d, "score": score} for (q, d), score in zip(judged, scores, strict=True)
    ]  # fmt: skip


QUOTED = [{"_id": "7", "title": "T", "text": 'tab-free "quoted", with, commas\u2028'}]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data_sets())
@example((QUOTED, [{"_id": "7", "text": "?"}], [{"query-id": "7", "corpus-id": "7", "score": 1}]))
@example((QUOTED, [{"_id": "{", "text": "?"}], [{"query-id": "{", "corpus-id": "7", "score": 1}]))
def test_valid_data_read_the_same_from_each_format(tmp_path_factory, made: tuple[Rows, Rows, Rows]) -> None:
    root = tmp_path_factory.mktemp("data")
    everything = "".join(str(value) for rows in made for row in rows for value in row.values())
    ids = "".join(str(row["_id"]) for rows in made[:2] for row in rows)
    first = beir_task(write(root / "first", *made))
    endings = [".jsonl.gz", ".csv", ".parquet"]
    if not set(everything) & set("\t\n\r\v\f"):
        endings.append(".tsv")  # TSV has no quotes, so tabs and line ends cannot be in a text
    if not any(character.isspace() for character in ids):
        endings.append(".trec")
    expected = {row["_id"]: f"{row['title']} {row['text']}".strip() for row in made[0]}
    corpus, _, judged = content(first)
    assert dict(zip(corpus["id"], corpus["text"], strict=True)) == expected
    graded: dict[str, dict[str, int]] = {}
    for row in made[2]:
        graded.setdefault(row["query-id"], {})[row["corpus-id"]] = max(row["score"], 0)
    assert judged == {query: grades for query, grades in graded.items() if any(grades.values())}
    for ending in endings:
        second = beir_task(write(root / ending, *made, ending=ending))
        assert content(second) == content(first), ending
        assert second.metadata.dataset["revision"] == first.metadata.dataset["revision"], ending


@pytest.mark.parametrize(
    ("document", "text", "query", "query_text"),
    [
        ("_id", "text", "_id", "text"),
        ("id", "contents", "q_id", "query_text"),
        ("doc_id", "text", "qid", "query"),
    ],
)
def test_columns_have_the_names_that_people_use_and_ids_may_be_integers(
    tmp_path, document, text, query, query_text
):
    corpus, queries, judged = (tmp_path / f"{stem}.jsonl" for stem in "cqj")
    corpus.write_bytes(json_lines([{document: 1, text: "x"}, {document: "b", "title": None, text: "y"}]))
    queries.write_bytes(json_lines([{query: 7, query_text: "who?"}]))
    judged.write_bytes(
        json_lines([{"q_id": 7, "doc_id": 1, "rel": 2}, {"q_id": 7, "doc_id": "b", "rel": -1}])
    )
    task = files_task(corpus, queries, judged)
    assert content(task)[0] == {"id": ["1", "b"], "text": ["x", "y"]}
    assert content(task)[2] == {"7": {"1": 2, "b": 0}}


# ---- corruptions: each is refused or counted, or changes no score ---------------------------------------


def swap(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(good: bytes) -> bytes:
        assert old.encode() in good
        return good.replace(old.encode(), new.encode(), 1)

    return change


def add(line: str) -> Callable[[bytes], bytes]:
    return lambda good: good + line.encode() + b"\n"


def bare(text: str) -> Callable[[bytes], bytes]:
    return lambda good: text.encode()


#: File, what happens to it, and the rule that its message must name; `counted` if only their number is reported.
CORRUPTIONS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("corpus.jsonl", swap('"word0 word1"', "5"), "row 1: the text must be a text, got 5"),
    ("corpus.jsonl", swap('"word0 word1"', '"\\ud800"'), r"row 1: the text must be a text, got .*ud800"),
    ("corpus.jsonl", swap('"word0 word1"', '" "'), "counted"),
    ("corpus.jsonl", swap('"title": ""', '"title": 3'), "row 1: the title must be a text, got 3"),
    ("corpus.jsonl", swap('"text": "word2', '"body": "word2'), "row 3: the text must be in a column"),
    ("corpus.jsonl", swap('"_id": "d1"', '"_id": "d0"'), "row 2: expected each id once, got 'd0' again"),
    ("corpus.jsonl", swap('"_id": "d0"', '"_id": "d\\u00000"'), "row 1: the id must be .* control characters"),
    ("corpus.jsonl", swap('"_id": "d0"', '"_id": true'), "row 1: the id must be .* got True"),
    ("corpus.jsonl", swap('"_id": "d0"', '"_id": "d0 "'), "row 1: expected the id of a document, got 'd0'"),
    ("corpus.jsonl", lambda good: good[:-20], "row 6: expected one JSON object, got: Unterminated string"),
    ("corpus.jsonl", lambda good: good.replace(b"word3", b"caf\xe9"), "expected UTF-8 text"),
    ("corpus.jsonl", bare(""), "expected rows, got none"),
    ("corpus.jsonl", bare("[" * 100_000), "row 1: expected one JSON object"),
    ("corpus.jsonl", bare('["d0", "text"]'), "row 1: expected a dict with the names of columns, got a list"),
    ("corpus.jsonl", bare('{"key": 1, "body": "a"}'), "must be in a column text or contents, got key, body"),
    ("queries.jsonl", swap('"text": "word0"', '"text": ""'), "row 1: expected a query, got an empty text"),
    ("queries.jsonl", add('{"_id": "q9", "text": "who"}'), "counted"),
    ("qrels.tsv", bare(HEADING), "expected rows, got none"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td0\t0"), "counted"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td0\t0.5"), "row 1: the score must be an integer .* got '0.5'"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td0\t99999999999999999999"), "the score must be an integer of at most 10,000"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td0"), r"row 1: expected 3 values"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td0\t1\t2"), "expected"),
    ("qrels.tsv", swap("q0\td0\t1", "q0\td9\t1"), "row 1: expected the id of a document, got 'd9'"),
    ("qrels.tsv", swap("q0\td0\t1", "d0\tq0\t1"), "row 1: expected the id of a query, got 'd0'"),
    ("qrels.tsv", add("q0\td0\t0"), "row 7: expected one score for a query and a document, got two for 'q0' and 'd0'"),
    ("qrels.tsv", add("q0\td0\t1"), "same"),
    ("qrels.tsv", bare(LINES), "must be in a column query-id or query_id or qid or q_id, got q0, d0, 1"),
    ("qrels.tsv", bare("query-id\tcorpus-id\tgrade\nq0\td0\t1\n"), "must be in a column score or .*, got query-id"),
    ("qrels.jsonl", bare('{"qid": "q0", "doc_id": "d0", "score": "0.5"}\n'), "the score must be an integer"),
    ("qrels.jsonl", bare('{"qid": "q0", "doc_id": "d0", "score": NaN}\n'), "the score must be an integer"),
    ("qrels.jsonl", bare('{"qid": "q0", "doc_id": "d0", "score": 0}\n'), "no judgement has a score above 0"),
    ("qrels.jsonl", bare('{"qid": "q0", "doc_id": "d0"}\n{"qid": "q1", "score": 1}\n'), "row 1: the score"),
    ("qrels.trec", bare("q0 d0 0 1\n"), "row 1: expected the id of a document, got '0'"),
    ("corpus.csv", bare("_id,text\nd0,a\n"), "expected one file corpus .*, found corpus.csv and corpus.jsonl"),
]  # fmt: skip


def scores_of(task: Any) -> dict[str, float]:
    """Scores of a search by shared words, in which the order of documents decides ties."""
    corpus, queries, _ = content(task)
    scores: dict[str, dict[str, float]] = {}
    for name, text in zip(queries["id"], queries["text"], strict=True):
        for document, words in zip(corpus["id"], corpus["text"], strict=True):
            scores.setdefault(name, {})[document] = float(len(set(text.split()) & set(words.split())))
    (split,) = splits_of(task)
    found = {}
    for query, judged in split.judged.items():
        # of documents with as many words the order of their ids decides
        ranking = {key: score + 1e-6 * sum(key.encode()) for key, score in scores[query].items()}
        found[query] = expected_score(split.metrics[0], group_ties(ranking, judged, 0.0), judged)
    return found


@pytest.mark.parametrize(("name", "change", "rule"), CORRUPTIONS, ids=[f"{c[0]} {c[2]}" for c in CORRUPTIONS])
def test_no_mistake_in_a_file_changes_a_score_unsaid(tmp_path: Path, name, change, rule) -> None:
    root = write(tmp_path / "mine", DOCUMENTS, QUERY_ROWS, JUDGED)
    (root / "qrels.jsonl").unlink()
    scores = {}
    if name not in ("qrels.jsonl", "qrels.trec"):
        (root / "qrels.tsv").write_text(HEADING + LINES)
        scores = scores_of(beir_task(root))
    path = root / name
    path.write_bytes(change(path.read_bytes() if path.exists() else b""))
    if rule == "same":
        assert scores_of(beir_task(root)) == scores
    elif rule == "counted":
        task = beir_task(root)
        assert len(splits_of(task)[0].left_out()) == 1
        kept = set(task.dataset["default"]["test"]["queries"]["id"])
        assert all(scores_of(task)[query] == scores[query] for query in kept - {"q0"})
    else:
        with pytest.raises(DataError, match=rule) as error:
            beir_task(root)
        message = str(error.value)
        assert message.startswith(str(root)) and message.endswith(".") and "\n" not in message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"corpus": pd.DataFrame([DOCUMENTS[0]] * 2)}, "^the corpus, row 2: expected each id once"),
        ({"queries": pd.DataFrame([{"_id": "q0"}])}, "^the queries, row 1: the text must be in a column"),
        ({"qrels": {"q0": {"d0": 0.5}}}, "^the qrels, row 1: the score must be an integer"),
    ],
)
def test_mistakes_in_tables_and_dicts_are_named_with_the_row(changed, message) -> None:
    given = {"corpus": {"d0": "a"}, "queries": {"q0": "a"}, "qrels": {"q0": {"d0": 1}}, **changed}
    with pytest.raises(DataError, match=message):
        files_task(**given)


def test_tables_and_dicts_are_taken_as_they_are(tmp_path: Path) -> None:
    by_file = beir_task(write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED))
    frames = [pd.DataFrame(rows) for rows in (DOCUMENTS, QUERY_ROWS, JUDGED)]
    # a filtered table has gaps in its index
    frames[0] = pd.concat([pd.DataFrame(DOCUMENTS[:2]), frames[0]]).iloc[2:]
    judged = {row["query-id"]: {row["corpus-id"]: np.int64(row["score"])} for row in JUDGED}
    dicts = [{row["_id"]: row["text"] for row in rows} for rows in (DOCUMENTS, QUERY_ROWS)]
    for task in (files_task(*frames), files_task(*dicts, judged)):
        assert content(task) == content(by_file)
        assert task.metadata.dataset["revision"] == by_file.metadata.dataset["revision"]
        task.unload_data()
        task.load_data()
        assert content(task) == content(by_file)


@pytest.mark.parametrize(
    ("qrels", "got"),
    [
        ({"q1": ["d1"]}, "a list"),
        ({"q1": {"d1"}}, "a set"),
        ({"q1": "d1"}, "a str"),
        ({"q1": ("d1", 1)}, "a tuple"),
        ({"q1": None}, "a NoneType"),
        ({("q1", "d1"): 1}, "a int"),
    ],
)
def test_judgements_in_another_python_form_are_told_in_its_words(qrels, got) -> None:
    message = (
        rf"^the qrels: each query needs a dict of its documents with their scores, such as .*, got {got} for "
    )
    with pytest.raises(DataError, match=message):
        read_judgements(qrels, {"q1": "who"}, {"d1": "text"})


@pytest.mark.parametrize(
    "corpus", [{"d1": {"contents": "text"}}, {"d1": {"text": "text", "title": ""}}, {"d1": "text"}]
)
def test_a_dict_of_documents_may_have_each_name_of_a_column(corpus) -> None:
    assert read_documents(corpus) == {"d1": "text"}


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({"d1": {"title": "a"}}, "the text must be in a column text or contents, got title, _id"),
        ({"d1": ["a", "b"]}, r"the text must be a text, got \['a', 'b'\]"),
        ({"d1": {"text": 5}}, "the text must be a text, got 5"),
    ],
)
def test_a_dict_of_no_documents_is_told_in_its_own_words(corpus, message) -> None:
    with pytest.raises(DataError, match=f"^the corpus, row 1: {message}"):
        read_documents(corpus)
