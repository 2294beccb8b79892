"""The paper's further tuning: train the position rows that `pi` or `rp` added to a learned table, and nothing else.

Source: Zhu et al. 2024, arXiv:2404.12096, section 4.2 and appendix B.
"""

from collections.abc import Sequence

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from sentence_transformers.sentence_transformer.training_args import BatchSamplers
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations
from transformers import TrainerCallback

from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.files import Json

from .backbone import OFFSET
from .families import EmbeddingModel
from .model import LongSentenceTransformer


class KeptRows(nn.Module):
    """The weight of a table with frozen rows: `kept` `[rows]` is True for these.

    A mask of gradients is not enough: weight decay and the optimiser's state change masked rows too.
    """

    def __init__(self, weight: Tensor, kept: Tensor) -> None:
        super().__init__()
        self.register_buffer("own", weight.detach().clone())
        self.register_buffer("kept", kept[:, None].to(weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        return torch.where(self.get_buffer("kept"), self.get_buffer("own"), weight)


class MovingCollator(SentenceTransformerDataCollator):
    """Samples an offset from 0 to `highest_offset` for each document; an anchor, which is a query, has none.

    Source: Zhu et al. 2023 (PoSE), arXiv:2309.10400. So short documents train the rows of long documents.
    """

    highest_offset: int = 0

    def __call__(self, features: list[Json]) -> Json:
        batch: Json = super().__call__(features)
        for column in features[0]:
            if column == "positive" or column.startswith("negative"):
                batch[f"{column}_{OFFSET}"] = torch.randint(self.highest_offset + 1, (len(features),))
        return batch


def rows_of_base(strategy: Strategy) -> Tensor:
    """Return `[Lt]` bool: the long rows taken from the base, for each of the base's rows the first that equals it.

    These are the rows `i*s` for `pi`, and the first `Lo` for `rp`. The extension added all others.
    """
    rows = torch.arange(strategy.target_len, dtype=torch.float64)
    positions = strategy.position_ids(rows, torch.tensor(strategy.target_len)).numpy()
    first = np.zeros(len(positions), bool)
    first[np.unique(positions, return_index=True)[1]] = True
    return torch.from_numpy(first & (positions % 1 == 0) & (positions < strategy.trained_len))


def tune(
    model: EmbeddingModel,
    data: Dataset,
    arguments: SentenceTransformerTrainingArguments | None = None,
    *,
    callbacks: Sequence[TrainerCallback] = (),
) -> LongSentenceTransformer:
    """Train the position rows that `pi` or `rp` added to a model; the model is changed and returned.

    Documents start at a random position, so that short documents train all rows. The base's rows stay exactly the same,
    and so do all embeddings up to the trained length.

    Args:
        model: a model such as `extend(base, "pi", 4096)`.
        data: rows with `anchor`, `positive` and perhaps `negative_1`, `negative_2`, ...; texts are truncated to the
            trained length.
        arguments: training arguments of sentence-transformers. Default: the paper's learning rate and batch size.
        callbacks: callbacks of the trainer.

    Raises:
        InputError: if the model is not extended or has several vectors, or the data lack a column.
        IncompatibleError: if its strategy or its positions have no added rows.
    """
    if not isinstance(model, LongSentenceTransformer):
        raise InputError(
            "tuning needs an extended model with one vector for each document, such as extend(base, 'pi', 4096) "
            f"returns, got a {type(model).__name__}."
        )
    first = model.backbone
    strategy = first.strategy
    table = first.table
    if strategy.KEY not in ("pi", "rp") or table is None:
        raise IncompatibleError(
            f"tuning trains only rows that pi or rp has added to learned positions, got {strategy.KEY} on "
            f"{first.config.model_type}: use extend(base, 'pi')."
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
    model.requires_grad_(False)
    kept = torch.cat([torch.ones(table.n_own, dtype=torch.bool), rows_of_base(strategy)])
    table.store_rows(table.long.detach())
    register_parametrization(table, "weight", KeptRows(table.weight, kept))
    loss = losses.CachedMultipleNegativesRankingLoss(model, scale=100, mini_batch_size=32)
    try:
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=data, loss=loss, data_collator=collator,
            callbacks=list(callbacks),
        ).train()  # fmt: skip
    finally:
        remove_parametrizations(table, "weight")
        first.model.config.max_position_embeddings = len(table.weight)
        for parameter in learned:
            parameter.requires_grad_(True)
    return model.eval()
