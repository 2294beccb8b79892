from __future__ import annotations

import pytest
import torch
from torch import nn

from mteb_longembed.encoders.extend import extend
from mteb_longembed.tuning.positions import OFFSET, AddedRows, rows_of_short_inputs
from mteb_longembed.tuning.trainer import isolate_rows, restore
from tests.tiny import TRAINED, sentence_transformer, text


def test_weight_decay_moves_new_rows_and_no_kept_one():
    table = nn.Embedding(6, 4)
    before = table.weight.detach().clone()
    kept = torch.tensor([True, False, True, False, True, False])
    rows = AddedRows(table, kept)
    optimizer = torch.optim.AdamW(rows.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        rows(torch.arange(6)).pow(2).sum().backward()
        optimizer.step()
    after = rows.to_embedding().weight
    assert torch.equal(after[kept], before[kept])
    assert (after[~kept] != before[~kept]).all()


def test_a_split_table_looks_up_what_the_whole_one_does():
    table = nn.Embedding(7, 3)
    rows = AddedRows(table, torch.arange(7) % 3 == 0)
    ids = torch.tensor([[6, 0, 3], [1, 1, 5]])
    assert torch.equal(rows(ids), table(ids))
    assert torch.equal(rows.weight, table.weight)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("pi", [4 * i for i in range(TRAINED)]), ("rp", list(range(TRAINED)))],
)
@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_kept_rows_are_the_ones_short_inputs_look_up(tmp_path, model_type, strategy, expected):
    first = extend(_named(model_type, tmp_path), strategy, 4 * TRAINED)[0]
    table = first.model.embeddings.position_embeddings
    kept = rows_of_short_inputs(first.family, table.num_embeddings)
    below = list(range(first.family.first_row))
    assert kept.nonzero().flatten().tolist() == below + [first.family.first_row + i for i in expected]


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


def test_without_offsets_an_isolated_model_embeds_as_before(tmp_path):
    model = extend(_named("bert", tmp_path), "pi", 4 * TRAINED)
    texts = [text(9), text(40)]
    before = model.encode(texts)
    table = isolate_rows(model)
    assert torch.equal(torch.tensor(model.encode(texts)), torch.tensor(before))
    restore(model, table)
    assert torch.equal(torch.tensor(model.encode(texts)), torch.tensor(before))


def _named(model_type, folder):
    model = sentence_transformer(model_type, folder)
    model.model_card_data.model_name = f"test/{model_type}"
    return model
