"""Read the texts that a caller passes."""

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping
from itertools import zip_longest

from mteb_longembed.errors import InputError


def without_surrogates(text: str) -> str:
    """Join surrogate pairs, and replace lone surrogates by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def read_given(what: str, texts: Iterable[str], *, keys: bool = False) -> Iterator[str]:
    """Yield the texts of an iterable, without surrogates; with `keys`, ids as they are.

    Args:
        what: name of the texts in messages.
        texts: any iterable but a text, a table or a dictionary, which would yield column names or keys.
        keys: whether the texts are ids.

    Raises:
        InputError: if `texts` or one of its items has another type.
    """
    is_dictionary = isinstance(texts, (Mapping, KeysView)) and not keys
    is_table = hasattr(texts, "columns") or hasattr(texts, "column_names")
    if is_dictionary or is_table or isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(
            f"{what} must be texts in a list or another iterable, got a {type(texts).__name__}: give a list of texts, "
            "the values() of a dict or one column of a table."
        )
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"{what} must be texts, got a {type(text).__name__} at index {index}: give a text."
            )
        yield text if keys else without_surrogates(text)


def read_pairs(ids: Iterable[str], texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each id with its text.

    Raises:
        InputError: if an id or a text is not a text, or if their numbers differ.
    """
    for key, text in zip_longest(read_given("ids", ids, keys=True), read_given("documents", texts)):
        if key is None or text is None:  # neither an id nor a text may be None
            raise InputError("every document needs an id, got more of one than of the other: give as many.")
        yield key, text


def with_text(
    documents: Iterable[tuple[str, str]], empty: list[str], known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the documents that have text, and append the ids of the others to `empty`.

    Raises:
        InputError: if an id is empty, has surrogates, comes twice or is among the `known` ids.
    """
    seen = set(known)
    for key, text in documents:
        if not key or key != without_surrogates(key):
            raise InputError(
                f"an id must have at least one character and no surrogates, got {key!r}: give another id."
            )
        if key in seen:
            raise InputError(
                f"ids must be new, got {key!r} a second time: give the document another id, or replace it."
            )
        seen.add(key)
        if not text or text.isspace():
            empty.append(key)
        else:
            yield key, text
