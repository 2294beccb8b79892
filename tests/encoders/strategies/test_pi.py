"""PI on learned tables: original rows in place, linear between, the last one held."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.encoders.strategies import STRATEGIES


@given(trained=st.integers(2, 40), scale=st.integers(1, 9), short=st.integers(0, 8))
def test_original_rows_are_bit_identical_wherever_the_target_ends(trained, scale, short):
    target = max(trained, trained * scale - min(short, trained - 1))
    pi = STRATEGIES["pi"](trained_len=trained, target_len=target)
    table = torch.randn(trained, 3)
    grown = pi.position_table(table)
    assert len(grown) == trained * pi.scale
    assert torch.equal(grown[:: pi.scale], table)
    assert (grown[(trained - 1) * pi.scale :] == table[-1]).all()
    rows = pi.table_rows(torch.arange(trained), torch.tensor(trained))
    assert torch.equal(grown[rows], table)


def test_short_scale_squeezes_short_inputs_too():
    pi = STRATEGIES["pi"](trained_len=4, target_len=8, short="scale")
    assert pi.position_ids(torch.arange(3), torch.tensor(3)).tolist() == [0, 0.5, 1]
    assert pi.table_rows(torch.arange(3), torch.tensor(3)).tolist() == [0, 1, 2]
