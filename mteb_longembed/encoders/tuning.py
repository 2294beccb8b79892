"""The paper's further tuning: train the position rows that `pi` or `rp` added to a learned table, and nothing else.

Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2 and appendix B.
"""

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from torch import Tensor, nn
from transformers import TrainerCallback

from mteb_longembed.errors import IncompatibleError, InputError

from .model import OFFSET, LongTransformer
from .swap import LongTable

#: The strategies that add rows to a table.
TUNABLE = ("pi", "rp")


class TrainedRows(nn.Module):
    """The rows of long documents `[Lt, d]` in two parts: rows of the base, which never change, and trained ones.

    One table with a gradient mask is not enough: weight decay and the optimiser's state change masked rows too.
    `kept` `[Lt]` is True for the rows that never change.
    """

    def __init__(self, rows: Tensor, kept: Tensor) -> None:
        super().__init__()
        kept = kept.to(rows.device)
        self.register_buffer("own", rows[kept].clone())
        # `forward` joins the kept rows and the new ones, and brings them in order
        self.register_buffer("order", (~kept).long().argsort(stable=True).argsort())
        self.new = nn.Parameter(rows[~kept].clone())

    def forward(self) -> Tensor:
        return torch.cat([self.get_buffer("own"), self.new])[self.get_buffer("order")]


class TunedTable(LongTable):
    """A table while its long rows are trained."""

    rows: TrainedRows

    @property
    def long(self) -> Tensor:
        """`[Lt, d]` the rows of long documents, with gradients."""
        return self.rows()


class MovingCollator(SentenceTransformerDataCollator):
    """Draws an offset from 0 to `highest_offset` for each document; an anchor, which is a query, has none.

    Source: Zhu et al. 2023 (PoSE), arXiv:2309.10400. So short documents train the rows of long documents; queries keep
    the positions of short inputs.
    """

    highest_offset: int = 0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().__call__(features)
        for column in features[0]:
            if column == "positive" or column.startswith("negative"):
                batch[f"{column}_{OFFSET}"] = torch.randint(self.highest_offset + 1, (len(features),))
        return batch


def rows_of_base(strategy: Any) -> Tensor:
    """`[Lt]` bool: the long rows that the extension took from the base: the first one that equals each of its rows.

    These are the places `i*s` under `pi`, and the first `Lo` under `rp`. The extension added all others.
    """
    kept = torch.zeros(strategy.target_len, dtype=torch.bool)
    places = torch.arange(strategy.target_len, dtype=torch.float64)
    positions = strategy.position_ids(places, torch.tensor(strategy.target_len))
    seen: set[float] = set()
    for place, position in enumerate(positions.tolist()):
        if position.is_integer() and position < strategy.trained_len and position not in seen:
            seen.add(position)
            kept[place] = True
    return kept


def tune(
    model: SentenceTransformer,
    data: Dataset,
    arguments: SentenceTransformerTrainingArguments | None = None,
    *,
    callbacks: Sequence[TrainerCallback] = (),
) -> SentenceTransformer:
    """Train the position rows that `pi` or `rp` added to a model; the model is changed and returned.

    Documents start at a random position, so that short documents train all rows. The base's rows do not change by a
    bit, so all embeddings up to the trained length stay the same.

    Args:
        model: as `extend(base, "pi", 4096)` returns it.
        data: rows with `anchor`, `positive` and perhaps `negative_1`, `negative_2`, ...; no text longer than the
            trained length is read whole.
        arguments: of sentence-transformers' trainer. Default: the paper's learning rate and batch size.
        callbacks: of the trainer.

    Raises:
        InputError: if the model is not extended, or the data lack a column.
        IncompatibleError: if its strategy or its positions have no added rows.
    """
    first: Any = model[0]
    if not isinstance(first, LongTransformer):
        raise InputError(
            "tuning needs an extended model, such as extend(base, 'pi', 4096) returns, got a plain one."
        )
    strategy = first.strategy
    table = first.table
    if strategy.KEY not in TUNABLE or table is None or strategy.target_len <= strategy.trained_len:
        raise IncompatibleError(
            f"tuning trains only rows that {' or '.join(TUNABLE)} has added to learned positions, got {strategy.KEY} "
            f"on {first.config.model_type} with a target of {strategy.target_len} tokens: use extend(base, 'pi')."
        )
    if not {"anchor", "positive"} <= set(data.column_names):
        raise InputError(f"the data must have anchor and positive, got {', '.join(data.column_names)}.")
    if arguments is None:
        arguments = SentenceTransformerTrainingArguments(
            per_device_train_batch_size=512, learning_rate=5e-4, warmup_steps=100,
            batch_sampler=BatchSamplers.NO_DUPLICATES, save_strategy="no", report_to="none",
        )  # fmt: skip
    collator = MovingCollator(
        preprocess_fn=model.preprocess, prompts=arguments.prompts, max_length=strategy.trained_len
    )
    collator.highest_offset = strategy.target_len - strategy.trained_len
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    rows = TrainedRows(table.long.detach(), rows_of_base(strategy))
    table.__class__ = TunedTable
    table.rows = rows
    loss = losses.CachedMultipleNegativesRankingLoss(model, scale=100, mini_batch_size=32)
    try:
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=data, loss=loss, data_collator=collator,
            callbacks=list(callbacks),
        ).train()  # fmt: skip
    finally:
        trained = rows().detach()
        del table.rows
        table.__class__ = LongTable
        table.keep(trained)
        first.model.config.max_position_embeddings = len(table.weight)
        first.has_long_rows = True
        for parameter in learned:
            parameter.requires_grad_(True)
    return model.eval()
