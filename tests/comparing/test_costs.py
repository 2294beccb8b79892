"""What is said of a candidate's cost, compared with all documents encoded and tokenised one by one."""

import random
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

import mteb_longembed
from mteb_longembed.comparing import costs, evaluate, page
from mteb_longembed.comparing.candidates import Candidate
from mteb_longembed.comparing.costs import Cost
from mteb_longembed.comparing.ranking import Row
from mteb_longembed.statistics.intervals import Interval
from tests import tiny
from tests.comparing.conftest import compare


def corpora() -> dict[tuple[str, str], list[Dataset]]:
    """Documents of 0 to 200 words in two splits, one of them with titles."""
    rng = random.Random(0)
    texts = ["", *(tiny.text(rng.randint(1, 200), i) for i in range(25))]
    titled = {"title": ["a title", "", None], "text": [tiny.text(70, 90), tiny.text(3, 91), tiny.text(9, 92)]}
    return {("A", "test"): [Dataset.from_dict({"text": texts})], ("B", "test"): [Dataset.from_dict(titled)]}


def joined(datasets: dict[Any, list[Dataset]]) -> list[str]:
    rows = [row for parts in datasets.values() for part in parts for row in part]
    return [f"{row.get('title') or ''} {row['text']}".strip() for row in rows]


@pytest.mark.parametrize(
    ("tail", "prompt"),
    [
        ("none", "passage: "),
        ("gp@64", ""),
        ("pi@64:vectors=5", "passage: "),
        ("pcw@64:vectors=window", ""),
        ("pcw@128:size=10,vectors=window", "passage: "),
    ],
)
def test_vectors_tokens_and_the_share_are_those_of_all_documents(base, tail, prompt) -> None:
    model: Any = mteb_longembed.load(f"{base}+{tail}")
    model.prompts["document"] = prompt
    documents, texts = corpora(), joined(corpora())
    counted = costs.count(model, documents, None)
    encoded = model.encode_document(texts, show_progress_bar=False)
    assert counted.vectors == np.mean([len(np.atleast_2d(np.asarray(rows))) for rows in encoded])

    target = model.first.longest
    around = len(model.tokenizer(prompt)["input_ids"])  # special tokens and the prompt
    lengths = [len(model.tokenizer(prompt + text)["input_ids"]) for text in texts]
    assert sum(counted.tokens.values()) == sum(min(n, target) for n in lengths)
    assert counted.tokens["B/test"] == sum(min(n, target) for n in lengths[-3:])
    full_len = sum(n - around for n in lengths)

    def share(length: int) -> float:
        return sum(max(min(n, length) - around, 0) for n in lengths) / full_len

    assert counted.share_read == share(target)
    assert share(counted.enough_len) >= costs.ENOUGH > share(counted.enough_len // 2)


def test_only_a_new_model_runs_once_before_the_clock_and_nothing_is_stored(base, monkeypatch) -> None:
    model: Any = mteb_longembed.load(f"{base}+gp@64")
    texts, encoded, stores = [tiny.text(60, 1), tiny.text(9, 2)], [], []

    def recorded(given: list[str], **kw: Any) -> Any:
        encoded.append(list(given))
        stores.append(model.store)
        return type(model).encode_document(model, given, **kw)

    monkeypatch.setattr(model, "encode_document", recorded)
    store = model.store
    costs.speed(model, texts)
    costs.speed(model, texts, is_new=False)
    short = encoded.pop(0)
    assert encoded == [texts, texts] and len(short) == 1 and texts[0].startswith(short[0])
    assert 4.5 * 16 <= len(short[0]) < len(texts[0])  # longer than the trained length of 16 tokens
    assert stores == [None] * 3 and model.store is store


def test_a_vector_has_the_bytes_that_the_search_keeps(base) -> None:
    texts = [tiny.text(40, 1), tiny.text(9, 2)]
    for tail in ("gp@64", "gp@64:vectors=5"):
        model: Any = mteb_longembed.load(f"{base}+{tail}")
        rate, size = costs.speed(model, texts)
        assert rate > 0 and size == np.atleast_2d(np.asarray(model.encode_document(texts)[0]))[0].nbytes


speeds = st.lists(st.floats(1, 1e6), min_size=1, max_size=4)


@given(speeds, speeds, st.booleans())
def test_a_speed_is_higher_only_if_it_clearly_is_on_the_same_device(first, second, together) -> None:
    a = Cost(speeds=first, device="x")
    b = Cost(speeds=second, device="x" if together else "y")
    apart = all(x > 1.2 * y for x in first for y in second)
    assert a.is_faster_than(b) == (together and apart and min(len(first), len(second)) >= 3)


def test_the_sample_is_drawn_once_from_everywhere_and_each_text_counts_once() -> None:
    parts = [Dataset.from_dict({"text": [f"text {i} of {part}" for i in range(9)] * 2}) for part in "ab"]
    drawn = costs.sample(parts, "cpu")
    assert drawn == costs.sample(parts, "cpu") and len(drawn) == len(set(drawn)) == 18
    long = Dataset.from_dict({"text": ["word " * 50_000] * 3 + ["other " * 50_000] * 3})
    assert len(costs.sample([long], "cpu")) == 1


def test_each_encoder_is_measured_once_and_a_search_has_its_encoders_speed(base, task, tmp_path, monkeypatch):
    calls = []
    measure = costs.measure

    def recorded(model: Any, texts: list[str]) -> tuple[list[float], int]:
        calls.append((str(model.checkpoint.spec.strategy), tuple(texts)))
        return measure(model, texts)

    monkeypatch.setattr(evaluate, "measure", recorded)
    tails = ("none@16", "gp@128", "gp@128,index=flat")
    candidates = [Candidate(f"{base}+{t}", base, i == 0, 16, 128 if i else 16) for i, t in enumerate(tails)]
    result = compare(candidates, task, tmp_path, bm25=True)
    assert [name for name, _ in calls] == ["none", "gp"] and len({texts for _, texts in calls}) == 1
    by_name = {row.name: row.cost for row in result.rows}
    (fusion,) = [name for name in by_name if "fuse=bm25" in name]
    encoder = next(name for name in by_name if name == Candidate(fusion, base).encoder)
    assert by_name[fusion] == by_name[encoder] and len(by_name[fusion].speeds) == 3
    assert by_name[f"{base}+{tails[1]}"] == by_name[f"{base}+{tails[2]}"]


@pytest.mark.parametrize(
    ("speeds", "shown"),
    [
        ([812, 790.4, 830], "812 [790,830]"),
        ([15801, 13421, 16552], "15.8k [13.4,16.6]"),
        ([158e3], "158k [158,158]"),
    ],
)
def test_speeds_are_short(speeds, shown) -> None:
    row = Row(Candidate("a+gp@8", "a"), "+gp@8", Interval(1, 1, 1), Cost(speeds=speeds))
    assert page.speed_cell(row).text == shown


def test_a_candidate_with_ones_own_chunker_is_called_by_its_key(base, task, tmp_path) -> None:
    who = [Candidate(f"{base}+none@16", base, True, 16, 16)]
    cutter = (lambda text: [(0, len(text) // 2), (len(text) // 2, len(text))], "v1")
    found = compare(who, task, tmp_path, chunkers={"halves": cutter})
    names = {row[1].text for row in page.ranking_table(found).rows}
    assert names == {"base", "+halves"}
