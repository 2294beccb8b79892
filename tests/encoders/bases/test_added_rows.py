from __future__ import annotations

import pytest
import torch

from mteb_longembed.encoders.extend import extend
from mteb_longembed.tuning.positions import rows_of_short_inputs
from tests.tiny import TRAINED, sentence_transformer


@pytest.mark.parametrize("strategy", ["pi", "rp"])
def test_the_kept_rows_are_the_bases_own_and_all_others_were_added(tmp_path, strategy):
    base = sentence_transformer("roberta", tmp_path / "base")
    base.model_card_data.model_name = "test/roberta"
    own = base[0].model.embeddings.position_embeddings.weight
    extended = extend(base, strategy, 4 * TRAINED)
    table = extended[0].model.embeddings.position_embeddings.weight
    kept = rows_of_short_inputs(extended[0].family, len(table))
    assert int(kept.sum()) == len(own) and torch.equal(table[kept], own)
