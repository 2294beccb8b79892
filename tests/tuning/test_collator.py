from __future__ import annotations

from collections import Counter

from mteb_longembed.tuning.positions import MovedDocumentsCollator


def collator(**settings):
    return MovedDocumentsCollator(preprocess_fn=lambda texts, **kwargs: {}, highest_offset=9, **settings)


def batch(n=2):
    return [{"anchor": f"q{i}", "positive": f"p{i}", "negative_1": f"n{i}"} for i in range(n)]


def test_documents_get_offsets_and_queries_none():
    made = collator()(batch())
    assert made.keys() == {"positive_position_offset", "negative_1_position_offset"}


def test_offsets_depend_on_seed_epoch_and_document_but_not_on_the_batch():
    one = collator(seed=1)
    whole = one(batch(50))["positive_position_offset"].tolist()
    assert one(batch(50)[7:8])["positive_position_offset"].tolist() == whole[7:8]
    assert collator(seed=2)(batch(50))["positive_position_offset"].tolist() != whole
    one.epoch = 1
    assert one(batch(50))["positive_position_offset"].tolist() != whole


def test_offsets_are_uniform_from_0_to_the_highest():
    counts = Counter(collator()(batch(5000))["positive_position_offset"].tolist())
    assert set(counts) == set(range(10))
    assert all(400 < n < 600 for n in counts.values())
