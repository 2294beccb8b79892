"""Texts that a user gives: any iterable of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mteb_longembed.encoders.text.prefix_tokenizer import without_surrogates
from mteb_longembed.errors import InputError


def read_given(what: str, texts: Iterable[str]) -> Iterator[str]:
    """Texts one after the other, without half characters. A dictionary is refused: its keys, or its values?"""
    if isinstance(texts, Mapping):
        raise InputError(f"{what} must be texts in a list or another iterable, got a dict: use its values().")
    return map(without_surrogates, checked(what, texts))


def checked(what: str, texts: Iterable[str]) -> Iterator[str]:
    """Texts of any iterable, one after the other.

    Raises:
        InputError: if it is one text, no iterable, or holds something else than texts.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a {type(texts).__name__}: use a list."
        )
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{what} must be texts, got a {type(text).__name__} at place {place}: give a text."
            )
        yield text
