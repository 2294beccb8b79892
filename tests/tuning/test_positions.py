from collections import Counter

import pytest
import torch
from torch import nn

from mteb_longembed.encoders.extend import extend
from mteb_longembed.tuning.positions import OFFSET, AddedRows, MovedDocumentsCollator, rows_of_short_inputs
from mteb_longembed.tuning.trainer import isolate_rows, restore
from tests.encoders.devices.simulated import Accelerator
from tests.tiny import TRAINED, sentence_transformer, text


def test_weight_decay_moves_new_rows_and_no_kept_one():
    table = nn.Embedding(6, 4)
    original = table.weight.detach().clone()
    kept = torch.tensor([True, False, True, False, True, False])
    rows = AddedRows(table, kept)
    optimizer = torch.optim.AdamW(rows.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        rows(torch.arange(6)).pow(2).sum().backward()
        optimizer.step()
    trained = rows.to_embedding().weight
    assert torch.equal(trained[kept], original[kept])
    assert (trained[~kept] != original[~kept]).all()


def test_a_split_table_looks_up_what_the_whole_one_does():
    table = nn.Embedding(7, 3)
    rows = AddedRows(table, torch.arange(7) % 3 == 0)
    ids = torch.tensor([[6, 0, 3], [1, 1, 5]])
    assert torch.equal(rows(ids), table(ids))
    assert torch.equal(rows.weight, table.weight)


@pytest.mark.parametrize(("strategy", "step"), [("pi", 4), ("rp", 1)])
@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_kept_rows_are_the_ones_short_inputs_look_up(tmp_path, model_type, strategy, step):
    first = extend(_named(model_type, tmp_path), strategy, 4 * TRAINED)[0]
    table = first.model.embeddings.position_embeddings
    kept = rows_of_short_inputs(first.family, table.num_embeddings)
    below = list(range(first.family.first_row))
    expected = [first.family.first_row + step * i for i in range(TRAINED)]
    assert kept.nonzero().flatten().tolist() == below + expected


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_a_moved_document_reads_the_rows_from_its_offset_on(tmp_path, model_type):
    model = extend(_named(model_type, tmp_path), "pi", 4 * TRAINED)
    isolate_rows(model)
    family = model[0].family
    features = model.preprocess([text(8), text(5)])
    features[OFFSET] = torch.tensor([30, -1])
    lengths = features["attention_mask"].sum(1)
    ids = family.prepare(features, lengths)["position_ids"] - family.first_row
    assert ids[0].tolist() == list(range(30, 38))
    assert ids[1, :5].tolist() == [0, 4, 8, 12, 16]


def test_documents_on_an_accelerator_are_moved_with_lengths_on_the_host(tmp_path):
    model = extend(_named("bert", tmp_path), "pi", 4 * TRAINED)
    isolate_rows(model)
    family, features, lengths = model[0].family, model.preprocess([text(8), text(5)]), torch.tensor([8, 5])
    features[OFFSET] = torch.tensor([30, -1])
    want = family.prepare(features, lengths)["position_ids"]
    with Accelerator("H100").present() as seen:
        on_device = {k: v.to(seen.device) if isinstance(v, torch.Tensor) else v for k, v in features.items()}
        moved = family.prepare(on_device, lengths)["position_ids"].cpu()
    assert torch.equal(moved, want)


def test_without_offsets_an_isolated_model_embeds_as_before(tmp_path):
    model = extend(_named("bert", tmp_path), "pi", 4 * TRAINED)
    texts = [text(9), text(40)]
    original = model.encode(texts)
    table = isolate_rows(model)
    assert torch.equal(torch.tensor(model.encode(texts)), torch.tensor(original))
    restore(model, table)
    assert torch.equal(torch.tensor(model.encode(texts)), torch.tensor(original))


def _named(model_type, folder):
    return sentence_transformer(model_type, folder, name=f"test/{model_type}")


def collator(**settings):
    return MovedDocumentsCollator(preprocess_fn=lambda texts, **kwargs: {}, highest_offset=9, **settings)


def batch(n=2):
    return [{"anchor": f"q{i}", "positive": f"p{i}", "negative_1": f"n{i}"} for i in range(n)]


def test_documents_get_offsets_and_queries_none():
    made = collator()(batch())
    assert made.keys() == {"positive_position_offset", "negative_1_position_offset"}


def test_offsets_depend_on_seed_epoch_and_document_but_not_on_the_batch():
    one = collator(seed=1)
    offsets = one(batch(50))["positive_position_offset"].tolist()
    assert one(batch(50)[7:8])["positive_position_offset"].tolist() == offsets[7:8]
    assert collator(seed=2)(batch(50))["positive_position_offset"].tolist() != offsets
    one.epoch = 1
    assert one(batch(50))["positive_position_offset"].tolist() != offsets


def test_offsets_are_uniform_from_0_to_the_highest():
    counts = Counter(collator()(batch(5000))["positive_position_offset"].tolist())
    assert set(counts) == set(range(10))
    assert all(400 < n < 600 for n in counts.values())
