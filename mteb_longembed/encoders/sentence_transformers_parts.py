"""Private names of sentence-transformers that we replace or use. A version that has moved one is refused.

A method that is replaced stays where it was, so a moved one would never run, and nobody would see it.
"""

from __future__ import annotations

import inspect
from collections.abc import Set
from importlib.metadata import version
from typing import Any

from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer

from mteb_longembed.errors import LongEmbedError, moved

#: What our models replace or call in their stock classes, and our transformer in its own.
_OF_MODELS = ("_inference", "_create_model_card", "_get_model_config", "_resolve_inference_device")
_OF_TRANSFORMER = ("_get_prompt_length",)
#: Where a stock model keeps the text of its card.
_CARD = "_model_card_text"


def check_methods(stock: type, *names: str) -> None:
    """Raise LongEmbedError if a class of sentence-transformers lacks one of these private methods."""
    for name in names:
        if not hasattr(stock, name):
            raise moved("sentence-transformers", f"{stock.__name__}.{name}")


def check_model(stock: type) -> None:
    """Raise LongEmbedError if a stock model, or its transformer, lacks a method that our models replace or call."""
    check_methods(stock, *_OF_MODELS)
    check_methods(Transformer, *_OF_TRANSFORMER)


def set_card(model: BaseModel, text: str) -> None:
    """Give a stock model the text of the model card that it writes when it is saved, if it was not trained."""
    if _CARD not in vars(model):
        raise moved("sentence-transformers", f"{type(model).__name__}.{_CARD}")
    vars(model)[_CARD] = text


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
