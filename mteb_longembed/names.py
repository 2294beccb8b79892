"""The grammar of names: `BASE+STRATEGY[@TARGET][:key=value,...]`. No torch, no mteb."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mteb_longembed.errors import InputError
from mteb_longembed.presets import PRESET_STRATEGY, PRESET_TARGET, PRESETS
from mteb_longembed.values import spell, split_settings
from mteb_longembed.zoo import ZOO, holds_model, is_folder

#: Values by setting: texts as in a name, or typed values.
Settings = Mapping[str, Any]
#: A name with a strategy. A key has no slash, as a folder's name may have, and no digit at its start, as `1e+5` has.
_EXTENDED = re.compile(
    r"(?P<base>.+)\+(?P<strategy>([^0-9+@:,/\\][^+@:,/\\]*)?)(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?",
    re.DOTALL,
)


#: The name of our BM25, and mteb's.
BM25 = "bm25"
MTEB_BM25 = "mteb/baseline-bm25s"
#: A name of our BM25: mteb's baseline or its alias, and at least a target or a setting. Version 0.7 had its own name.
_BM25 = re.compile(
    r"(mteb/baseline-bm25s|(mteb-longembed/)?bm25)(?=[@:,])(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?"
)
#: The base of `expand=MODEL`, with which versions 0.8 and 0.9 named what is now `MODEL+lexical`.
_EXPAND = re.compile(r"(?:^|,)\s*expand=(?P<base>[^,+:@]+)")


def read_name(text: str) -> tuple[str, str | None, str | None, dict[str, str]]:
    """Parse a name: base, strategy, target, and the settings by key, as texts. A missing part is None.

    A folder that holds a model is a base, whatever characters its name has. A colon may precede the settings. A
    canonical name has a comma instead, for Windows' folders. The base of our BM25 is `MTEB_BM25`.

    Raises:
        InputError: if a setting is not `key=value`, or is given twice, or an `@` has no target.

    >>> read_name("e5-base+ntk@4k:sigma=4")
    ('e5-base', 'ntk', '4k', {'sigma': '4'})
    >>> read_name("bm25@512:window=200")
    ('mteb/baseline-bm25s', None, '512', {'window': '200'})
    """
    match = _BM25.fullmatch(text)
    if match is not None:
        _check_no_model(text, match["settings"] or "")
        return MTEB_BM25, None, match["target"], split_settings(text, match["settings"] or "")
    if holds_model(text):
        return text, None, None, {}
    base, strategy, target, settings = split_name(text)
    match = _EXTENDED.fullmatch(text)
    if match is not None and match["target"] is not None and not match["target"].strip():
        raise InputError(f"a target must follow @, such as @4k, got {text!r}: add one, or leave out the @.")
    return base, strategy, target, split_settings(text, settings)


def _check_no_model(text: str, settings: str) -> None:
    """Raise InputError for the `expand=MODEL` of version 0.9."""
    model = _EXPAND.search(settings)
    if model is not None:
        base = model["base"]
        raise InputError(
            f"BM25 with query expansion by a model is {base}+lexical since version 0.10, got {text!r}: write "
            f"{base}+lexical, with query=sentences, score=max or window= behind a colon."
        )


def is_lexical(text: str) -> bool:
    """Return whether a name requests our BM25 without a model.

    >>> is_lexical("bm25"), is_lexical("bm25@512"), is_lexical("e5-base+lexical"), is_lexical("mteb/baseline-bm25s")
    (True, True, False, False)
    """
    return text == BM25 or _BM25.fullmatch(text) is not None


def is_extended_name(text: str) -> bool:
    """Return whether we resolve this name: an alias of a model with weights, `+STRATEGY`, or a variant of BM25.

    >>> is_extended_name("intfloat/e5-base-v2+ntk"), is_extended_name("intfloat/e5-base-v2")
    (True, False)
    >>> is_extended_name("e5-base"), is_extended_name("bm25"), is_extended_name("./c++/model")
    (True, False, False)
    >>> is_extended_name("e5-base:logn=on")  # invalid, and reported so
    True
    """
    # an alias with a target or settings but no strategy is one of our names, but an invalid one
    alias = re.split("[@:,]", text)[0]
    is_named = split_name(text)[1] is not None or _BM25.fullmatch(text) is not None
    if alias in ZOO and alias != text:
        is_named = True
    return is_named or (text in ZOO and ZOO[text].source == "hub")


def absolute_name(text: str) -> str:
    """Return a name with the absolute path of the base's folder, so that it is valid in every working folder."""
    base = text if holds_model(text) else split_name(text)[0]
    if not is_folder(base):
        return text
    return os.path.abspath(base) + text[len(base) :]  # noqa: PTH100 - symbolic links keep their names


def split_name(text: str) -> tuple[str, str | None, str | None, str]:
    """Split a name at its last `+` that starts a strategy, at `@` and `:` or `,`: base, strategy, target, settings.

    A missing part is None. A `+` in a folder's name or in an exponent (`1e+5`) does not start a strategy. A preset is
    replaced by its full name, and settings after it override its own.

    >>> split_name("intfloat/e5-base-v2+ntk@4096,sigma=4")
    ('intfloat/e5-base-v2', 'ntk', '4096', 'sigma=4')
    >>> split_name("e5-base+late@8k:vectors=32")
    ('e5-base', 'pcw', '8k', 'query=tokens,vectors=32')
    """
    match = _EXTENDED.fullmatch(text)
    if match is None:
        return text, None, None, ""
    base, strategy, target, settings = (
        match["base"],
        match["strategy"],
        match["target"],
        match["settings"] or "",
    )
    preset = PRESETS.get(strategy)
    if preset is None:
        return base, strategy, target, settings
    return base, PRESET_STRATEGY, target or PRESET_TARGET, preset.followed_by(settings)


def with_preset(text: str) -> str:
    """Return the shortest name that means the same: a preset stands for its settings, and others follow it.

    >>> with_preset("e5-base+pcw@32768:vectors=16,query=tokens"), with_preset("e5-base+pcw@4k:vectors=window")
    ('e5-base+late', 'e5-base+windows@4k')
    >>> with_preset("e5-base+pcw@32768:fusion=bm25,query=tokens,vectors=16,whiten=0.5")
    'e5-base+hybrid:whiten=0.5'
    >>> with_preset("e5-base+pcw@4k:vectors=32")
    'e5-base+pcw@4k:vectors=32'
    """
    base, strategy, target, settings = split_name(text)
    if strategy != PRESET_STRATEGY or target is None:
        return text
    parts = settings.split(",")
    tail = "" if target in (PRESET_TARGET, "32768") else f"@{target}"
    names = [text]
    for key, preset in PRESETS.items():
        own = preset.settings.split(",")
        if set(own) <= set(parts):
            others = ",".join(part for part in parts if part not in own)
            names.append(":".join(filter(None, [f"{base}+{key}{tail}", others])))
    return min(names, key=len)


def name_of(base: str, experiment: Settings | None) -> str:
    """Build the name of a model from its base's name and mteb's experiment (`experiment_kwargs`).

    The name has all values of the experiment except the version of our algorithms.

    >>> name_of("intfloat/e5-base-v2", {"strategy": "ntk", "target_len": 4096, "sigma": 4.0, "algorithm": "le3"})
    'intfloat/e5-base-v2+ntk@4096,sigma=4'
    >>> name_of("mteb/baseline-bm25s", {"window": 200, "algorithm": "p4"})
    'mteb/baseline-bm25s,window=200'
    """
    settings = dict(experiment or {})
    settings.pop("algorithm", None)
    strategy, target = settings.pop("strategy", None), settings.pop("target_len", None)
    name = base if strategy is None else f"{base}+{strategy}"
    if target is not None:
        name += f"@{target}"
    return name + "".join(f",{key}={spell(settings[key])}" for key in sorted(settings))


def revision_of(revision: str | None, experiment: Settings | None) -> str:
    """Return the revision of results: the base's revision, and the version of the algorithms.

    >>> revision_of("1c644c92", {"strategy": "ntk", "algorithm": "le3"})
    '1c644c92-le3'
    """
    algorithm = (experiment or {}).get("algorithm")
    return str(revision) if algorithm is None else f"{revision}-{algorithm}"


@dataclass(frozen=True)
class Identity:
    """The name and revision of a method in results, caches and cards, in the parts that mteb has for them."""

    base: str  #: mteb's name of the base, or `local/NAME` for a model that was changed after it was loaded
    revision: str | None  #: revision of the base, or for a changed model its digest
    experiment: Settings | None = None  #: mteb's experiment: the settings that make the method from its base
    changed_from: str | None = None  #: the name that a changed model had; None for an unchanged one

    @property
    def name(self) -> str:
        """The name of results."""
        return name_of(self.base, self.experiment)

    @property
    def result_revision(self) -> str:
        """The revision of results: of the base, and the version of the algorithms."""
        return revision_of(self.revision, self.experiment)
