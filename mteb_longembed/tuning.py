"""The paper's further tuning: train the position rows that `pi` or `rp` added to a learned table, and nothing else.

Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2 and appendix B.
"""

import functools
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
from torch.nn import functional
from transformers import TrainerCallback

from mteb_longembed.errors import IncompatibleError, InputError

#: The strategies that add rows to a table.
TUNABLE = ("pi", "rp")
#: Name of a feature: how many positions a document is moved.
OFFSET = "position_offset"


class AddedRows(nn.Module):
    """A position table `[rows, d]` in two parts: rows that never change, not by a bit, and rows that are trained.

    One table with a gradient mask is not enough: weight decay and the optimiser's state change masked rows too.
    `kept` `[rows]` is True for the rows that never change.
    """

    kept: Tensor
    row_of_position: Tensor

    def __init__(self, table: nn.Embedding, kept: Tensor) -> None:
        super().__init__()
        weight = table.weight.detach()
        kept = kept.to(weight.device)
        self.register_buffer("kept", weight[kept].clone())
        # `forward` looks up the kept rows followed by the new ones
        self.register_buffer("row_of_position", (~kept).long().argsort(stable=True).argsort())
        self.new = nn.Parameter(weight[~kept].clone())

    @property
    def weight(self) -> Tensor:
        """The whole table, `[rows, d]`."""
        return torch.cat([self.kept, self.new])[self.row_of_position]

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(self.row_of_position[ids], torch.cat([self.kept, self.new]))


def moved(family: Any, features: Any, lengths: Tensor) -> Any:
    """The family's `prepare`, but documents may start at any position: `p` of a document becomes `p + offset`.

    Source: Zhu et al. 2023 (PoSE), arXiv:2309.10400. So short documents train the rows of long documents; queries,
    which have no offset, keep the positions of short inputs.
    """
    prepared = dict(type(family).prepare(family, features, lengths))
    offset = prepared.pop(OFFSET, None)
    if offset is None:
        return prepared
    ids = prepared["input_ids"]
    p = torch.arange(ids.shape[1], device=ids.device)[None]
    rows = family.first_row + family.strategy.trained_len + p + offset[:, None].to(ids.device)
    is_token = p < lengths.to(ids.device)[:, None]
    prepared["position_ids"] = torch.where(is_token, rows, prepared["position_ids"])
    return prepared


class MovingCollator(SentenceTransformerDataCollator):
    """Draws an offset from 0 to `highest_offset` for each document; an anchor, which is a query, has none."""

    highest_offset: int = 0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().__call__(features)
        for column in features[0]:
            if column == "positive" or column.startswith("negative"):
                batch[f"{column}_{OFFSET}"] = torch.randint(self.highest_offset + 1, (len(features),))
        return batch


def rows_of_base(family: Any, rows: int) -> Tensor:
    """`[rows]` bool: the rows of the base: those of short inputs, and the first long row that equals each of these.

    These long rows are the places `i*s` under `pi`, and the first `Lo` under `rp`. The extension added all others.
    """
    strategy = family.strategy
    kept = torch.zeros(rows, dtype=torch.bool)
    first_long = family.first_row + strategy.trained_len
    kept[:first_long] = True
    positions = strategy.position_ids(
        torch.arange(strategy.target_len, dtype=torch.float64), torch.tensor(strategy.target_len)
    )
    seen: set[float] = set()
    for place, position in enumerate(positions.tolist()):
        if position.is_integer() and position < strategy.trained_len and position not in seen:
            seen.add(position)
            kept[first_long + place] = True
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
    strategy = getattr(first, "strategy", None)
    if strategy is None:
        raise InputError(
            "tuning needs an extended model, such as extend(base, 'pi', 4096) returns, got a plain one."
        )
    if (
        strategy.KEY not in TUNABLE
        or first.family.name != "absolute"
        or strategy.target_len <= strategy.trained_len
    ):
        raise IncompatibleError(
            f"tuning trains only rows that {' or '.join(TUNABLE)} has added to learned positions, got {strategy.KEY} "
            f"on {first.family.name} positions with a target of {strategy.target_len} tokens: use extend(base, 'pi')."
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
    family = first.family
    embeddings = first.model.embeddings
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    table = embeddings.position_embeddings
    added = AddedRows(table, rows_of_base(family, table.num_embeddings))
    embeddings.position_embeddings = added
    family.prepare = functools.partial(moved, family)
    loss = losses.CachedMultipleNegativesRankingLoss(model, scale=100, mini_batch_size=32)
    try:
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=data, loss=loss, data_collator=collator,
            callbacks=list(callbacks),
        ).train()  # fmt: skip
    finally:
        rows = added.weight.detach()
        embeddings.position_embeddings = nn.Embedding(
            len(rows), rows.shape[1], table.padding_idx, _weight=rows
        )
        del family.prepare
        for parameter in learned:
            parameter.requires_grad_(True)
    return model.eval()
