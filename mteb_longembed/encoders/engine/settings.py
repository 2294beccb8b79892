"""The settings of one call of the engine, and how results are taken from the features of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from mteb_longembed.encoders.features import Features, to_device


def sentence_embeddings(features: Features) -> list[Tensor]:
    """One vector for each document, as sentence-transformers' dense models give."""
    return list(features["sentence_embedding"])


def token_embeddings(features: Features) -> list[Tensor]:
    """Each text's vectors, `[vectors, d]`. They are copied, so the padding of the batch does not stay in memory."""
    rows = features["token_embeddings"]
    masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
    return [row[to_device(mask.nonzero()[:, 0], rows.device)] for row, mask in zip(rows, masks, strict=True)]


#: Name of a form -> takes one array for each document, of any shape, from the features after the last module.
FORMS: Mapping[str, Callable[[Features], list[Tensor]]] = {
    "sentence_embeddings": sentence_embeddings,
    "tokens": token_embeddings,
    "vectors": token_embeddings,
}


@dataclass(frozen=True)
class EncodeSettings:
    """The prompt, how many texts may run together, and which arrays are returned, on the host or where they are.

    `forward_kwargs` go to the modules' `forward`. The store keeps the arrays of each form, one of `FORMS`, separately.
    """

    prompt: str | None = None
    batch_size: int = 32
    forward_kwargs: Mapping[str, object] = field(default_factory=dict)
    form: str = "sentence_embeddings"
    to_host: bool = False

    def collect(self, features: Features) -> list[Tensor]:
        """One array for each document of a batch."""
        return FORMS[self.form](features)
