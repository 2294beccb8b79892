"""What is said of a candidate's cost, compared with all documents encoded and tokenised one by one."""

import random
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

import mteb_longembed
from mteb_longembed.comparing import costs, run
from mteb_longembed.comparing.candidates import named
from mteb_longembed.comparing.costs import Lengths, document_lengths, measure
from mteb_longembed.data.task import files_task
from mteb_longembed.data.texts import texts_of
from mteb_longembed.retrieval import scorer
from tests import tiny
from tests.comparing.conftest import compare


class Documents:
    """The part of a split that counting needs."""

    def __init__(self, **columns: Any) -> None:
        self.corpus = Dataset.from_dict(columns)
        texts = [text for batch in texts_of(self.corpus) for text in batch]
        self.documents = scorer.Documents(list(map(str, range(len(texts)))), texts)


def corpora() -> list[Any]:
    """Documents of 0 to 200 words in two splits, one of them with titles."""
    rng = random.Random(0)
    texts = ["", *(tiny.text(rng.randint(1, 200), i) for i in range(25))]
    titled = {"title": ["a title", "", None], "text": [tiny.text(70, 90), tiny.text(3, 91), tiny.text(9, 92)]}
    return [Documents(text=texts), Documents(**titled)]


def joined(splits: list[Any]) -> list[str]:
    rows = [row for split in splits for row in split.corpus]
    return [f"{row.get('title') or ''} {row['text']}".strip() for row in rows]


@pytest.mark.parametrize(
    ("tail", "prompt"),
    [
        ("gp@64", ""),
        ("pi@64:vectors=5", "passage: "),
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

    target = model.backbone.max_input_len
    around = len(model.tokenizer(prompt)["input_ids"])  # special tokens and the prompt
    lengths = [len(model.tokenizer(prompt + text)["input_ids"]) for text in texts]
    assert counted.tokens == sum(min(n, target) for n in lengths)
    assert counted.longest == max(lengths)
    read = sum(max(min(n, target) - around, 0) for n in lengths)
    assert counted.share_read == read / sum(n - around for n in lengths)


def test_the_covering_length_reads_nearly_all_text() -> None:
    lengths = np.array([100] * 20 + [5000] * 2 + [30_000])
    length = Lengths(lengths, 1.0).covering()
    assert np.minimum(lengths, length).sum() >= 0.95 * lengths.sum() > np.minimum(lengths, length // 2).sum()
    found = document_lengths(corpora(), None)
    by_tokens = document_lengths(corpora(), tiny.tokenizer())
    assert by_tokens.sampled.sum() < found.sampled.sum()  # a word is more than a token, by its words
    assert found.scale == 1 and len(found.sampled) == 28  # one of the 29 has no text


def test_unknown_tokens_count_as_not_read(base, tmp_path) -> None:
    known = "aa ab ac ad"
    texts = {"d0": known, "d1": "漢字 漢字 漢字 漢字"}
    task = files_task(texts, {"q0": known}, {"q0": {"d0": 1}})
    result = compare([named(f"{base}+none@16")], task, tmp_path / "out")
    (row,) = result.summary.itertuples()
    assert row.share_unknown > 0.3 and row.share_read == pytest.approx(1 - row.share_unknown)
    assert any("unknown to the tokenizer" in sentence for sentence in result.texts("caution"))


def test_the_sample_is_taken_once_from_everywhere_and_each_text_counts_once() -> None:
    parts: list[Any] = [Documents(text=[f"text {i} of {part}" for i in range(9)] * 2) for part in "ab"]
    sampled = costs.sampled_texts(parts, 10_000)
    assert sampled == costs.sampled_texts(parts, 10_000) and len(sampled) == len(set(sampled)) == 18
    long: Any = Documents(text=["word " * 50_000] * 3 + ["other " * 50_000] * 3)
    assert len(costs.sampled_texts([long], 10_000)) == 1


def test_each_encoder_is_measured_once_and_a_search_has_its_encoders_speed(base, task, tmp_path, monkeypatch):
    calls = []

    def recorded(model: Any, texts: list[str]) -> tuple[float, int]:
        calls.append((str(model.resolved.method.strategy), tuple(texts)))
        return measure(model, texts)

    monkeypatch.setattr(run, "measure", recorded)
    tails = ("none@16", "gp@128", "gp@128:whiten=0.5", "gp@128:fusion=bm25,weights=idf,whiten=0.5")
    found = [named(f"{base}+{tail}") for tail in tails]
    result = compare([*found, named("bm25@20")], task, tmp_path, bm25=True)
    assert sorted(name for name, _ in calls) == ["gp"] * 3 + ["none"] * 3
    assert len({texts for _, texts in calls}) == 1
    rows = result.summary[["tokens_per_second", "bytes"]]
    # 15 of 38 words are 20 tokens
    assert result.summary.loc["bm25@20", "share_read"] == pytest.approx(15 / 38)
    # words beside weighted vectors keep the plain ones too
    assert [result.summary.loc[one.id, "vectors"] for one in found] == [1, 1, 1, 2]
    assert [result.summary.loc[one.id, "bytes"] for one in found] == [128, 128, 128, 256]
    assert rows.loc[found[1].id].equals(rows.loc[found[2].id])


def test_only_a_new_model_runs_once_before_the_clock_and_nothing_is_stored(folder, monkeypatch) -> None:
    model: Any = mteb_longembed.load(f"{folder}+gp@64")
    texts, encoded, caches = [tiny.text(60, 1), tiny.text(9, 2)], [], []

    def recorded(given: list[str], **kw: Any) -> Any:
        encoded.append(list(given))
        caches.append(model.embedding_cache)
        return type(model).encode_document(model, given, **kw)

    monkeypatch.setattr(model, "encode_document", recorded)
    cache = model.embedding_cache
    assert measure(model, texts)[0] > 0
    short = encoded.pop(0)
    assert encoded == [texts] and len(short) == 1 and texts[0].startswith(short[0])
    assert 4.5 * 16 <= len(short[0]) < len(texts[0])  # longer than the trained length of 16 tokens
    assert caches == [None] * 2 and model.embedding_cache is cache


def test_vectors_for_tokens_of_the_query_are_counted_at_the_precision_of_a_search(
    base, task, tmp_path
) -> None:
    (late,) = compare([named(f"{base}+gp@64:query=tokens,vectors=5")], task, tmp_path).summary.itertuples()
    assert late.vectors > 2 and late.bytes == late.vectors * (32 + 4)
    searcher = mteb_longembed.search(f"{base}+gp@64:query=tokens,vectors=5", device="cpu")
    texts = [tiny.text(40, 1), tiny.text(9, 2)]
    searcher.add(["a", "b"], texts)
    assert searcher.index is not None and searcher.index.shown is not None
    assert searcher.index.shown.stored.rows.n_bytes == searcher.n_vectors * (32 + 4)
    assert late.text_bytes > 20


def test_a_vector_has_the_bytes_that_the_search_keeps(folder) -> None:
    texts = [tiny.text(40, 1), tiny.text(9, 2)]
    for tail in ("gp@64", "gp@64:vectors=5"):
        model: Any = mteb_longembed.load(f"{folder}+{tail}")
        rate, size = measure(model, texts)
        assert rate > 0 and size == np.atleast_2d(np.asarray(model.encode_document(texts)[0]))[0].nbytes


def test_a_length_covers_documents_if_it_reads_95_percent_of_their_tokens() -> None:
    # at 128 tokens 2,028 of 2,132 and of 2,136 are read
    for longest, covering in ((232, 128), (236, 256)):
        assert costs.Lengths(np.array([100] * 19 + [longest]), 1.0).covering() == covering
