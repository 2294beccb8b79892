"""Which tokens of a document each of its vectors stands for: a way is one class, and one line of the registry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor

from mteb_longembed.encoders.token_batch import TokenBatch, content
from mteb_longembed.names.parameters import read

#: How many vectors a document has: one for so many content tokens, or a key of `GROUPINGS`. None: one vector.
Vectors = int | str


class Grouping(Protocol):
    """A way to divide the tokens of a document among its vectors."""

    #: Whether a vector is the mean of its tokens, which only fits a model that averages them. If not, it is what the
    #: model's own pooling makes of a window, and needs a strategy that cuts documents into windows.
    averages: ClassVar[bool]

    def tokens(self, batch: TokenBatch, number: int) -> list[Tensor]:
        """The indices of each vector's tokens, for a text of a batch; none if it has no content."""


@dataclass(frozen=True)
class Spans:
    """One vector for every `size` content tokens. The last one may stand for fewer.

    Source: on extended positions this is late chunking (Günther et al. 2024, arXiv:2409.04701): the transformer reads
        the whole document, and spans of its token embeddings are averaged afterwards.
    Differs: spans have a fixed number of tokens. In the paper a text splitter makes the spans, as in `encode_spans`.
    """

    size: int

    averages: ClassVar[bool] = True

    def tokens(self, batch: TokenBatch, number: int) -> list[Tensor]:
        start, end = content(batch.bounds[number])
        return list(torch.arange(start, end).split(self.size)) if end > start else []


@dataclass(frozen=True)
class WindowVectors:
    """One vector for every window that a strategy cuts; for a document that is not cut, one vector."""

    averages: ClassVar[bool] = False

    def tokens(self, batch: TokenBatch, number: int) -> list[Tensor]:
        windows = batch.windows
        if windows is None:
            return [torch.arange(int(batch.lengths[number]))]
        return [row[row >= 0] for row in windows.tokens[windows.texts == number]]


#: Key -> way to group. Numbers of tokens are `Spans`.
GROUPINGS: Mapping[str, type[Grouping]] = {"window": WindowVectors}


def grouping_of(vectors: Vectors | None) -> Grouping | None:
    """The way that a value of `vectors` asks for. None for one vector."""
    if vectors is None:
        return None
    if isinstance(vectors, int):
        return Spans(vectors)
    return GROUPINGS[vectors]()


def read_vectors(value: object) -> Vectors | None:
    """The value of `vectors` in a name, a call or a saved folder.

    Raises:
        InputError: if it is neither a number of tokens nor a key.
    """
    number = Annotated[int, Field(ge=1), "content token for each vector"]
    return read("vectors", number | Literal[tuple(GROUPINGS)] | None, value)
