"""The position rows an extension added, in a file of their own: a tuned model without its base's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from mteb_longembed.encoders.families.absolute import Absolute
from mteb_longembed.errors import ModelError

ROWS_FILE = "new_rows.safetensors"


def rows_of_short_inputs(family: Absolute, rows: int) -> Tensor:
    """`[rows]` bool: rows that inputs up to the trained length look up, or below the first position.

    These are the base's own rows: `i*s` under `pi`, the first `Lo` under `rp`. All others were added.

    Args:
        family: of an extended model with absolute positions.
        rows: of its position table.
    """
    strategy = family.strategy
    p = torch.arange(strategy.trained_len)
    short = strategy.table_rows(p, torch.tensor(strategy.trained_len)).long()
    kept = torch.zeros(rows, dtype=torch.bool)
    kept[: family.first_row] = True
    kept[family.first_row + short] = True
    return kept


def put_rows(model: SentenceTransformer, folder: str | Path) -> None:
    """Replace the added rows of an extended model by those in `folder`; in place.

    Raises:
        ModelError: if there are not as many rows as the extension added, or of another width.
    """
    first: Any = model[0]
    table = first.model.embeddings.position_embeddings.weight
    added = ~rows_of_short_inputs(first.family, len(table))
    rows = load_file(Path(folder, ROWS_FILE))["rows"]
    expected = (int(added.sum()), table.shape[1])
    if tuple(rows.shape) != expected:
        raise ModelError(
            f"the rows in {folder} must be {expected[0]} of width {expected[1]}, got {tuple(rows.shape)}."
        )
    with torch.no_grad():
        table[added] = rows.to(table)
