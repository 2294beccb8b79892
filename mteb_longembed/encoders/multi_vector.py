"""The MultiVectorEncoder that `extend` and `load` return for a name with `vectors`, on our engine."""

from __future__ import annotations

from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder
from torch import Tensor

from .embedder import Embedder
from .engine.cluster import engine_for
from .engine.running import Features
from .span_pooling import RaggedVectors


class LongMultiVectorEncoder(Embedder, MultiVectorEncoder):
    """A `MultiVectorEncoder`: one vector for each span or window of a document, and one vector for a query."""

    @property
    def dimensions(self) -> int | None:
        """To how many dimensions embeddings are cut, None if they are not."""
        return cast("RaggedVectors", self[-1]).dims

    @torch.inference_mode()
    def _inference(  # type: ignore[override]
        self,
        inputs: list[Any],
        *,
        prompt: str | None,
        batch_size: int,
        show_progress_bar: bool,
        output_value: str | None,
        save_to_cpu: bool,
        normalize_embeddings: bool,
        token_pooling: Any,
        task: str | None,
        device: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Encode in batches by tokens. Features and inputs that are not texts go to sentence-transformers' method."""
        if output_value is None or self.first.token_ids(inputs[:1], prompt, task=task, **kwargs) is None:
            return super()._inference(
                inputs,
                prompt=prompt,
                batch_size=batch_size,
                show_progress_bar=show_progress_bar,
                output_value=output_value,
                save_to_cpu=save_to_cpu,
                normalize_embeddings=normalize_embeddings,
                token_pooling=token_pooling,
                task=task,
                device=device,
                **kwargs,
            )
        where = self._resolve_inference_device(device)
        self.eval()
        # equal texts are encoded once
        unique = list(dict.fromkeys(inputs))
        done: dict[str, Tensor] = {}
        settings: dict[str, Any] = {
            "prompt": prompt,
            "batch_size": batch_size,
            "store": self.store,
            "collect": _vectors,
            "to_host": save_to_cpu and token_pooling is None,
            "form": "vectors",
            "kwargs": {"task": task, **kwargs},
        }
        engine = engine_for(self, where, settings)
        for places, rows in engine.encode(unique, show=show_progress_bar):
            if normalize_embeddings:
                rows = [torch.nn.functional.normalize(row, dim=-1) for row in rows]
            if token_pooling is not None:
                rows = token_pooling.pool(rows, task=task)
            for place, row in zip(places, rows, strict=True):
                done[unique[place]] = row.cpu() if save_to_cpu else row
        self.reading = engine.reading
        return [done[text] for text in inputs]


def _vectors(features: Features) -> list[Tensor]:
    """Each text's vectors, `[vectors, d]`. They are copied, so the padding of the batch does not stay in memory."""
    counts = features["attention_mask"].sum(1).tolist()
    return [row[:n].clone() for row, n in zip(features["token_embeddings"], counts, strict=True)]
