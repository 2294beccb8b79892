"""What the name of a BM25 of ours asks for, and mteb's description of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from mteb.models.model_implementations.bm25 import bm25_s
from mteb.models.model_meta import ModelMeta
from pydantic import Field

from mteb_longembed.errors import InputError
from mteb_longembed.names import BM25_SETTINGS, bm25_settings, read_fields, read_tokens

#: How a document's score comes from those of its windows: the best one, or all of them.
Join = Literal["max", "softmax"]
#: Words of a window. Neighbouring windows share half of them.
WINDOW = 200
#: Version of this file's algorithm, part of the revision.
VERSION = "p4"


@dataclass(frozen=True)
class BM25Settings:
    """What a name such as `bm25:window=200,query=sentences` or `bm25@512` asks for.

    Args:
        window: words of a window; None: whole documents only.
        query: `sentences` asks each sentence of a query on its own.
        score: how windows make a document's score: all of them (`softmax`), or the best one (`max`). None: all.
        neighbours: the model by whose vectors words have neighbours, as it is typed.
        target_len: only so many tokens of each document are read; None: all of it.
    """

    window: Annotated[int, Field(ge=2), "words"] | None = None
    query: Literal["sentences"] | None = None
    score: Join | None = None
    neighbours: str | None = None
    target_len: int | None = None

    def __post_init__(self) -> None:
        read_fields(self, "bm25's ")
        if self.window is None and self.score is not None:
            raise InputError(f"score={self.score} needs windows, such as bm25:window=200,score={self.score}.")
        if self.score == "softmax":
            object.__setattr__(self, "score", None)  # the instance is frozen for others

    @classmethod
    def parse(cls, text: str) -> BM25Settings:
        """Read a name.

        Raises:
            InputError: if a value breaks its rule.
        """
        if text == "bm25":
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

        >>> str(BM25Settings.parse("bm25:query=sentences,window=200"))
        'mteb-longembed/bm25,query=sentences,window=200'
        >>> str(BM25Settings.parse("bm25@512"))
        'mteb-longembed/bm25@512'
        """
        target = ""
        if self.target_len is not None:
            target = f"@{self.target_len}"
        settings = ""
        for key in sorted(BM25_SETTINGS):
            value = getattr(self, key)
            if value is not None:
                settings += f",{key}={value}"
        return f"mteb-longembed/bm25{target}{settings}"


def bm25_meta(settings: BM25Settings, load: Callable[..., Any], model: ModelMeta | None = None) -> ModelMeta:
    """mteb's description of a BM25 of ours: that of its baseline, with a name and a revision of its own.

    Args:
        settings: what the name asks for.
        load: makes mteb's object; it may be given a device.
        model: the description of the model by which words have neighbours.
    """
    revision = f"{bm25_s.revision}-{VERSION}"
    if model is not None:
        settings = replace(settings, neighbours=str(model.name))
        revision += f"-{model.revision}"
    fields = {
        "name": str(settings),
        "revision": revision,
        "loader": load,
        "loader_kwargs": {},
        "adapted_from": bm25_s.name,
    }
    return bm25_s.model_copy(update=fields)
