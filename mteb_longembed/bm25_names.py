"""The names of our BM25, such as `bm25@512:window=200`. No torch, no mteb."""

import re

from mteb_longembed.errors import InputError
from mteb_longembed.values import split_settings

#: mteb's name of its BM25.
MTEB_BM25 = "mteb/baseline-bm25s"
#: The settings that a name of our BM25 may have.
BM25_SETTINGS = ("window", "query", "score")
#: A name of our BM25: mteb's baseline or its alias, and at least a target or a setting. Version 0.7 had its own name.
_BM25 = re.compile(
    r"(mteb/baseline-bm25s|(mteb-longembed/)?bm25)(?=[@:,])(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?"
)

#: The base of `expand=MODEL`, with which versions 0.8 and 0.9 named what is now `MODEL+lexical`.
_EXPAND = re.compile(r"(?:^|,)\s*expand=(?P<base>[^,+:@]+)")


def is_bm25_name(text: str) -> bool:
    """Return whether a name requests one of our BM25 variants, not mteb's baseline.

    >>> is_bm25_name("bm25:window=200"), is_bm25_name("bm25@512"), is_bm25_name("bm25")
    (True, True, False)
    """
    return _BM25.fullmatch(text) is not None


def bm25_settings(text: str) -> tuple[str | None, dict[str, str]]:
    """Parse the target length and the settings of one of our BM25 variants.

    Raises:
        InputError: if it is not written like one, or has the `expand=MODEL` of version 0.9.

    >>> bm25_settings("bm25@512:window=200")
    ('512', {'window': '200'})
    """
    match = _BM25.fullmatch(text)
    if match is None:
        raise InputError(f"our BM25 is written bm25:window=200 or bm25@512, got {text!r}.")
    settings = match["settings"] or ""
    model = _EXPAND.search(settings)
    if model is not None:
        base = model["base"]
        raise InputError(
            f"BM25 with query expansion by a model is {base}+lexical since version 0.10, got {text!r}: write "
            f"{base}+lexical, with query=sentences, score=max or window= behind a colon."
        )
    return match["target"], split_settings(text, settings)
