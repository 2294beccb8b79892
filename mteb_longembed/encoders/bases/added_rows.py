"""Which rows of a position table an extension added, and which are the base's own."""

from __future__ import annotations

import torch
from torch import Tensor

from mteb_longembed.encoders.families.absolute import Absolute


def rows_of_short_inputs(family: Absolute, rows: int) -> Tensor:
    """`[rows]` bool: the rows that inputs up to the trained length read, and the rows before the first position.

    These are the base's own rows: `i*s` under `pi`, the first `Lo` under `rp`. The extension added all others.

    Args:
        family: family of an extended model with absolute positions.
        rows: number of rows of its position table.
    """
    strategy = family.strategy
    p = torch.arange(strategy.trained_len)
    short = strategy.table_rows(p, torch.tensor(strategy.trained_len)).long()
    kept = torch.zeros(rows, dtype=torch.bool)
    kept[: family.first_row] = True
    kept[family.first_row + short] = True
    return kept
