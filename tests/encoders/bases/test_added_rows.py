from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mteb_longembed.encoders.bases.added_rows import ROWS_FILE, put_rows, rows_of_short_inputs
from mteb_longembed.encoders.extend import extend
from mteb_longembed.errors import ModelError
from tests.tiny import TRAINED, sentence_transformer, text


def save_rows(model, folder) -> None:
    """The added rows of a model in half precision, in the order of their positions."""
    table = model[0].model.embeddings.position_embeddings.weight.detach()
    folder.mkdir(exist_ok=True)
    added = table[~rows_of_short_inputs(model[0].family, len(table))]
    save_file({"rows": added.half().contiguous()}, folder / ROWS_FILE)


@pytest.fixture
def base(tmp_path):
    model = sentence_transformer("roberta", tmp_path / "base")
    model.model_card_data.model_name = "test/roberta"
    return model


@pytest.mark.parametrize("strategy", ["pi", "rp"])
def test_rows_put_on_an_extended_base_make_the_tuned_model(tmp_path, base, strategy):
    tuned, fresh = (extend(base, strategy, 4 * TRAINED) for _ in range(2))
    table = tuned[0].model.embeddings.position_embeddings.weight
    with torch.no_grad():
        added = ~rows_of_short_inputs(tuned[0].family, len(table))
        # halves: exact in half precision
        table[added] = torch.randint(-8, 8, (int(added.sum()), table.shape[1])) / 4
    save_rows(tuned, tmp_path / "rows")
    put_rows(fresh, tmp_path / "rows")
    texts = [text(9), text(TRAINED), text(4 * TRAINED)]
    assert np.allclose(fresh.encode(texts), tuned.encode(texts), atol=1e-6)
    assert np.allclose(fresh.encode(texts[:2]), base.encode(texts[:2]), atol=1e-6)


def test_rows_of_another_target_are_refused(tmp_path, base):
    save_rows(extend(base, "pi", 2 * TRAINED), tmp_path)
    with pytest.raises(ModelError, match=r"must be 48 of width 32, got \(16, 32\)"):
        put_rows(extend(base, "pi", 4 * TRAINED), tmp_path)
