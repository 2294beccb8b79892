"""What the name of a BM25 of ours asks for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, cast

from mteb.models.model_implementations.bm25 import bm25_s
from pydantic import Field

from mteb_longembed.errors import InputError
from mteb_longembed.names import BM25_SETTINGS, bm25_settings, name_of, read_fields, read_tokens

#: How a document's score comes from those of its windows: the best one, or all of them.
Join = Literal["max", "softmax"]
#: Words of a window. Neighbouring windows share half of them.
WINDOW = 200
#: Version of this file's algorithm, part of mteb's experiment.
VERSION = "p4"


@dataclass(frozen=True)
class BM25Settings:
    """What a name such as `bm25:window=200,query=sentences` or `bm25@512` asks for."""

    #: words of a window; None: whole documents only
    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None  #: `sentences` asks each sentence of a query on its own
    #: how windows make a document's score: all of them (`softmax`), or the best one (`max`); None: all
    score: Join | None = None
    neighbours: str | None = None  #: the model by whose vectors words have neighbours, as it is typed
    #: of so many documents that words find first the windows count too. This model reads them when they are first
    #: asked for
    rerank: Annotated[int, Field(ge=2), "documents"] | None = None
    target_len: int | None = None  #: only so many tokens of each document are read; None: all of it

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        if self.rerank is not None and self.neighbours is None:
            raise InputError(
                f"rerank needs a model that reads documents, got rerank={self.rerank} without one: add "
                "neighbours=MODEL."
            )
        if self.score == "softmax":
            object.__setattr__(self, "score", None)  # the instance is frozen for others

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Read a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        if text in ("bm25", bm25_s.name):
            return cls()
        target, settings = bm25_settings(text)
        for key in settings:
            if key not in BM25_SETTINGS:
                raise InputError(f"bm25 takes {', '.join(BM25_SETTINGS)}, got {key} in {text!r}.")
        length = None
        if target is not None:
            length = read_tokens("the target", target)
        return cls(**cast("dict[str, Any]", settings), target_len=length)

    def __str__(self) -> str:
        """The canonical name.

        >>> str(BM25Settings.parse("bm25@512:query=sentences,window=200"))
        'mteb/baseline-bm25s@512,query=sentences,window=200'
        """
        return name_of(str(bm25_s.name), self.given)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are not their defaults."""
        return {key: value for key, value in asdict(self).items() if value is not None}
