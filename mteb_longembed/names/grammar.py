"""The grammar of an extended model's name: `BASE+STRATEGY[@TARGET][:key=value,...]`. Text only; nothing is checked."""

import re
from collections.abc import Iterable

from mteb_longembed.errors import InputError
from mteb_longembed.files import holds_model
from mteb_longembed.names.zoo import ZOO

#: The longest name that we read, in characters. Real hub ids and folders with parameters are much shorter.
MAX_LENGTH = 1000
#: A target length after a base that has no strategy.
_TARGET_ALONE = re.compile(r"(?P<base>[^+]+)@(?P<target>[0-9]+[kK]?)")
#: A name with a strategy. A key has no slash, as a folder's name may have, and no digit at its start, as `1e+5` has.
_EXTENDED = re.compile(
    r"(?P<base>.+)\+(?P<strategy>([^0-9+@:,/\\][^+@:,/\\]*)?)(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?",
    re.DOTALL,
)

#: What a name may set that changes only the search, and no model, beside maps that are fitted on its vectors
#: (`encoders/heads/transforms.py`). `retrieval/settings.py` reads the values.
SEARCH_SETTINGS = ("fuse", "weight", "weights", "score", "query", "neighbours")
#: What the name of a BM25 of ours may set.
BM25_SETTINGS = ("window", "query", "score", "neighbours")
#: A BM25 of ours: `bm25`, and at least a target or a setting.
_BM25 = re.compile(r"(mteb-longembed/)?bm25(?=[@:,])(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?")
#: The model of its neighbours, to the next setting of BM25's or the end.
_NEIGHBOURS = re.compile(rf"(?:^|,)neighbours=(?P<name>.+?)(?=,(?:{'|'.join(BM25_SETTINGS)})=|$)")


def is_extended_name(text: str) -> bool:
    """Whether we resolve this name: it is an alias of a model with weights, or it has a `+STRATEGY`.

    >>> is_extended_name("intfloat/e5-base-v2+ntk"), is_extended_name("intfloat/e5-base-v2")
    (True, False)
    >>> is_extended_name("e5-base"), is_extended_name("bm25"), is_extended_name("./c++/model")
    (True, False, False)
    """
    named = split_name(text)[1] is not None or target_alone(text) is not None or is_bm25_name(text)
    return named or (text in ZOO and ZOO[text].kind == "hub")


def split_name(text: str) -> tuple[str, str | None, str | None, str]:
    """Base, strategy, target and settings: a name cut at its last `+` that starts a strategy, at `@` and `:` or `,`.

    A part that is missing is None. A `+` in a folder's name or in an exponent (`1e+5`) does not start a strategy.

    >>> split_name("intfloat/e5-base-v2+ntk@4096,sigma=4")
    ('intfloat/e5-base-v2', 'ntk', '4096', 'sigma=4')
    """
    match = _EXTENDED.fullmatch(text)
    if match is None:
        return text, None, None, ""
    return match["base"], match["strategy"], match["target"], match["settings"] or ""


def is_bm25_name(text: str) -> bool:
    """Whether a name asks for a BM25 of ours, and not for mteb's baseline.

    >>> is_bm25_name("bm25:window=200"), is_bm25_name("bm25@512"), is_bm25_name("bm25")
    (True, True, False)
    """
    return _BM25.fullmatch(text) is not None


def bm25_settings(text: str) -> tuple[str | None, dict[str, str]]:
    """The target length and the settings of a BM25 of ours. The name of a model may have commas.

    >>> bm25_settings("bm25@512:window=200")
    ('512', {'window': '200'})
    >>> bm25_settings("bm25:neighbours=e5-base+pcw:size=64,overlap=8,window=200")[1]
    {'neighbours': 'e5-base+pcw:size=64,overlap=8', 'window': '200'}
    """
    match = _BM25.fullmatch(text)
    if match is None:
        raise InputError(f"a BM25 of ours is written bm25:window=200 or bm25@512, got {text!r}.")
    settings = match["settings"] or ""
    model = _NEIGHBOURS.search(settings)
    if model is None:
        return match["target"], split_settings(text, settings)
    others = settings[: model.start()] + settings[model.end() :]
    given = split_settings(text, others.strip(","))
    if "neighbours" in given:
        raise InputError(f"a parameter may be given only once, got neighbours twice in {text!r}.")
    return match["target"], {"neighbours": model["name"], **given}


def split_settings(text: str, settings: str) -> dict[str, str]:
    """The parameters of a name, `text`, by their keys. Values stay text.

    Raises:
        InputError: if a part is not `key=value`, or a key is given twice.

    >>> split_settings("e5-base+pi@4k:logn=off,short=scale", "logn=off,short=scale")
    {'logn': 'off', 'short': 'scale'}
    """
    given: dict[str, str] = {}
    if not settings:
        return given
    for part in settings.split(","):
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise InputError(
                f"parameters must be written as key=value with commas between them, got {part!r} in {text!r}."
            )
        if key in given:
            raise InputError(f"a parameter may be given only once, got {key} twice in {text!r}.")
        given[key] = value
    return given


def split_search(text: str, keys: Iterable[str] = SEARCH_SETTINGS) -> tuple[str, dict[str, str]]:
    """The name of the model alone, and the settings of search with these keys that follow it.

    >>> split_search("e5-base+pcw@4k:fuse=bm25,size=64,vectors=window")
    ('e5-base+pcw@4k:size=64,vectors=window', {'fuse': 'bm25'})
    """
    _, strategy, _, settings = split_name(text)
    if strategy is None or not settings or holds_model(text):
        return text, {}
    of_model = split_settings(text, settings)
    of_search = {key: of_model.pop(key) for key in keys if key in of_model}
    if not of_search:
        return text, {}
    model = text[: -len(settings) - 1]
    if of_model:
        model += ":" + ",".join(f"{key}={value}" for key, value in of_model.items())
    return model, of_search


def target_alone(text: str) -> re.Match[str] | None:
    """The match of a base with a target length but no strategy, such as `mini-rope@1k`."""
    match = _TARGET_ALONE.fullmatch(text)
    if match and (match["base"] in ZOO or match["base"].count("/") == 1):
        return match
    return None
