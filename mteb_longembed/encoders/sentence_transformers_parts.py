"""Private methods of sentence-transformers that we replace or call. A version that has moved one is refused at import.

A method that is replaced stays where it was, so a moved one would never run, and nobody would see it.
"""

from __future__ import annotations

import inspect
from collections.abc import Set
from importlib.metadata import version
from typing import Any

from sentence_transformers.sentence_transformer.modules import Transformer

from mteb_longembed.errors import LongEmbedError, moved

#: What our models replace or call in their stock classes, and our transformer in its own.
_OF_MODELS = ("_inference", "_create_model_card", "_get_model_config", "_resolve_inference_device")
_OF_TRANSFORMER = ("_get_prompt_length",)


def check_methods(stock: type, *more: str) -> None:
    """Raise LongEmbedError if a class of sentence-transformers lacks a private method that we replace or call."""
    for kind, names in ((stock, (*_OF_MODELS, *more)), (Transformer, _OF_TRANSFORMER)):
        for name in names:
            if not hasattr(kind, name):
                raise moved("sentence-transformers", f"{kind.__name__}.{name}")


def check_arguments(stock: Any, wanted: Set[str]) -> None:
    """Raise LongEmbedError if `_inference` takes other arguments: it would run without or against our engine.

    Args:
        stock: the class of sentence-transformers.
        wanted: the names of the arguments that we know.
    """
    parameters = inspect.signature(stock._inference).parameters.values()
    present = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    differing = (present - {"self"}) ^ wanted
    if differing:
        raise LongEmbedError(
            f"sentence-transformers {version('sentence-transformers')} has other arguments "
            f"({', '.join(sorted(differing))}) of {stock.__name__}._inference, which mteb-longembed needs to run its "
            "models: install another version of one of the two."
        )
