"""Passages that answer, compared with a slow oracle that marks every character."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mteb_longembed.data.task import beir_task
from mteb_longembed.data.texts import data_identity
from mteb_longembed.errors import DataError
from mteb_longembed.evaluation.passages import score_passages
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from tests.own_data import beir, judge

spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair)))
shown = st.lists(st.tuples(spans, st.integers(0, 50)), max_size=8)
documents = st.sampled_from([f"d{i}" for i in range(8)])
judged = st.dictionaries(documents, st.lists(spans, min_size=1, max_size=3))


@settings(max_examples=200, deadline=None)
@given(shown, judged)
def test_ranks_and_tokens_are_those_of_an_oracle_that_marks_each_character(passages, answers) -> None:
    rank = math.inf
    for position, ((start, end), _) in enumerate(passages, start=1):
        marked = set(range(start, end))
        for first, last in answers.get(f"d{position - 1}", []):
            characters = list(range(first, last))
            if 2 * sum(c in marked for c in characters) >= len(characters):
                rank = min(rank, position)
    rows = {"q": [(f"d{j}", *span, n) for j, (span, n) in enumerate(passages)]}
    scores = score_passages(rows, {"q": answers})["q"]
    for k in (1, 5):
        assert scores[f"passage@{k}"] == (rank <= k)
        assert scores[f"context@{k}"] == sum(n for _, n in passages[:k])


def test_judged_passages_are_characters_of_the_text_and_change_no_identity(tmp_path) -> None:
    root = beir(tmp_path, ["the key is here and there", "other"], ["where"])
    plain = data_identity(beir_task(root), "test")
    rows = [json.loads(line) for line in (root / "corpus.jsonl").read_text().splitlines()]
    task = beir_task(judge(root, "q0\td0\t1\t4\t7", "q0\td0\t1\t20\t25"))
    assert data_identity(task, "test") == plain
    assert task.passages("test") == {"q0": {"d0": [(4, 7), (20, 25)]}}
    rows[0]["title"] = " A title"
    (root / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = beir_task(root)
    text = task.dataset["default"]["test"]["corpus"]["text"][0]
    assert [text[start:end] for start, end in task.passages("test")["q0"]["d0"]] == ["key", "there"]
    for score, start, end in (
        ("1", "4", "4"), ("0", "-1", "3"), ("1", "4", "26"), ("0", "4", ""), ("1", "", "7"), ("1", "a", "b")
    ):  # fmt: skip
        with pytest.raises(DataError, match=r"row 1: start and end must be whole numbers of characters"):
            beir_task(judge(root, f"q0\td0\t{score}\t{start}\t{end}", "q0\td1\t1\t0\t5"))


@pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])
def test_generated_tasks_know_their_passages(task) -> None:
    data = task.generate("test_256")
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    hidden = {f"d{i}": item for i, item in enumerate(data["corpus"].hidden)}
    for query, passages in task.passages("test_256").items():
        ((document, ((start, end),)),) = passages.items()
        assert data["relevant_docs"][query] == {document: 1}
        assert texts[document][start:end] == hidden[document].text
