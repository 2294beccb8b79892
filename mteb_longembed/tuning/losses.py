"""The losses of tuning: InfoNCE, or distillation from a re-ranker plus InfoNCE."""

from __future__ import annotations

from typing import Any, cast

import torch
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    DistillKLDivLoss,
)
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor

CONTRASTIVE_WEIGHT = 0.2


class DistilledRankingLoss(CachedMultipleNegativesRankingLoss):
    """KL divergence from a re-ranker's scores, plus 0.2 times InfoNCE, with gradient caching.

    Source: Wang et al. 2022 (E5), arXiv:2212.03533, section 4.3.
    """

    def __init__(self, model: Any, scale: float, mini_batch_size: int) -> None:
        super().__init__(model, scale=scale, mini_batch_size=mini_batch_size)
        self.distillation = DistillKLDivLoss(
            model, similarity_fct=pairwise_cos_sim, student_temperature=1 / scale, teacher_temperature=1.0
        )

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        contrastive = super().calculate_loss(reps, labels, with_backward=False)
        columns = [torch.cat(column) for column in reps]
        # DistillKLDivLoss multiplies by its temperature squared; E5's recipe does not, so we undo it
        divergence = (
            self.distillation.compute_loss_from_embeddings(columns, cast("Tensor", labels)) * self.scale**2
        )
        loss = divergence + CONTRASTIVE_WEIGHT * contrastive
        if with_backward:
            loss.backward()
            loss = loss.detach()
        return loss


def loss_for(
    model: Any, *, distil: bool, temperature: float, mini_batch_size: int
) -> CachedMultipleNegativesRankingLoss:
    """The loss for data with scores (`distil`) or without scores, with cached gradients."""
    kind = DistilledRankingLoss if distil else CachedMultipleNegativesRankingLoss
    return kind(model, scale=1 / temperature, mini_batch_size=mini_batch_size)
