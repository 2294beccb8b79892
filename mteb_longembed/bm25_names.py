"""The names of our BM25, such as `bm25@512:window=200`. No torch, no mteb."""

import re

from mteb_longembed.errors import InputError
from mteb_longembed.values import split_settings

#: mteb's name of its BM25.
MTEB_BM25 = "mteb/baseline-bm25s"
#: The settings that a name of our BM25 may have.
BM25_SETTINGS = ("window", "query", "score", "expand")
#: A name of our BM25: mteb's baseline or its alias, and at least a target or a setting. Version 0.7 had its own name.
_BM25 = re.compile(
    r"(mteb/baseline-bm25s|(mteb-longembed/)?bm25)(?=[@:,])(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?"
)
#: The model of query expansion, up to the next setting of BM25 or the end.
_EXPAND = re.compile(rf"(?:^|,)expand=(?P<name>.+?)(?=,(?:{'|'.join(BM25_SETTINGS)})=|$)")


def is_bm25_name(text: str) -> bool:
    """Return whether a name requests one of our BM25 variants, not mteb's baseline.

    >>> is_bm25_name("bm25:window=200"), is_bm25_name("bm25@512"), is_bm25_name("bm25")
    (True, True, False)
    """
    return _BM25.fullmatch(text) is not None


def bm25_settings(text: str) -> tuple[str | None, dict[str, str]]:
    """Parse the target length and the settings of one of our BM25 variants. A model's name may have commas.

    >>> bm25_settings("bm25@512:window=200")
    ('512', {'window': '200'})
    >>> bm25_settings("bm25:expand=e5-base+pcw:size=64,overlap=8,window=200")[1]
    {'expand': 'e5-base+pcw:size=64,overlap=8', 'window': '200'}
    """
    match = _BM25.fullmatch(text)
    if match is None:
        raise InputError(f"our BM25 is written bm25:window=200 or bm25@512, got {text!r}.")
    settings = match["settings"] or ""
    model = _EXPAND.search(settings)
    if model is None:
        return match["target"], split_settings(text, settings)
    others = settings[: model.start()] + settings[model.end() :]
    further = split_settings(text, others.strip(","))
    if "expand" in further:
        raise InputError(f"a parameter may be given only once, got expand twice in {text!r}.")
    return match["target"], {"expand": model["name"], **further}
