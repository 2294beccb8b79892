"""The names of models: their grammar, the aliases, how values are written. No torch, no mteb.

A name is `BASE+STRATEGY[@TARGET][:key=value,...]`. `prompts.json` has commits and prompts of published models, those of
mteb's registry (2.26) if it knows the model.
"""

import functools
import json
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from mteb_longembed.errors import InputError

# ---- values ---------------------------------------------------------------------------------------------------

#: The default language, as mteb writes it.
ENGLISH = "eng-Latn"
#: The power of a whitening.
Power = Annotated[float, Field(gt=0, le=1), "(such as 0.5)"]
#: How many vectors a document has: one for so many content tokens, or `window`: one for each window that a strategy
#: cuts. None: one vector.
Vectors = Annotated[int, Field(ge=1), "content token for each vector"] | Literal["window"]
_THOUSANDS = re.compile(r"([0-9]{1,12})[kK]")
_KINDS = {int: "a whole number", float: "a number", bool: "on or off", str: "a text"}
_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def read(name: str, kind: Any, value: object) -> Any:
    """The typed value of a text from a name, or of a value from Python.

    Args:
        name: that of messages, with its owner: `se's g`.
        kind: a type, as fields are annotated: numbers, bool, Literal, None, and unions of them. A text in `Annotated`
            is the unit of a number.
        value: what was given.

    Raises:
        InputError: if it is none of this kind.

    >>> read("ntk's sigma", float, "1e1"), read("se's g", int | Literal["document"] | None, "9")
    (10.0, 9)
    """
    given = value
    if isinstance(value, bool):  # which is a number to Python
        given = "on" if value else "off"
    try:
        return _adapter(kind).validate_python(given)
    except ValidationError:
        raise InputError(f"{name} must be {_rule(kind)}, got {value!r}.") from None


def read_fields(settings: Any, owner: str = "") -> None:
    """Read the fields of a frozen dataclass by their annotations, and keep the typed values.

    Raises:
        InputError: if a value breaks its rule.
    """
    owner_of_fields: Any = type(settings)
    for name, kind in hints(owner_of_fields).items():
        value = read(f"{owner}{name}", kind, getattr(settings, name))
        object.__setattr__(settings, name, value)  # the instance is frozen for others


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


@functools.cache
def hints(owner: Any) -> dict[str, Any]:
    """The types of a dataclass' fields, with their bounds and units."""
    types_of = typing.get_type_hints(owner, include_extras=True)
    return {field.name: types_of[field.name] for field in fields(owner)}


def _rule(kind: Any) -> str:
    """What a value of this kind is, in words.

    >>> _rule(Annotated[int, Field(ge=1), "tokens"] | Literal["document"] | None)
    'a whole number of at least 1 tokens or document'
    """
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        return " or ".join(map(_rule, members))
    if origin is Literal:
        choices = typing.get_args(kind)
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if origin is not Annotated:
        return _KINDS[kind]
    inner, *notes = typing.get_args(kind)
    bounds = []
    for note in notes:
        for limit in getattr(note, "metadata", ()):
            bounds += [f"{_BOUNDS[key]} {value}" for key, value in asdict(limit).items()]
    units = [note for note in notes if isinstance(note, str)]
    return " ".join(filter(None, [_rule(inner), " and ".join(bounds), *units]))


def _tokens(value: object) -> object:
    """`4k` is 4096; all other values are read as they are."""
    match = _THOUSANDS.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else 1024 * int(match[1])


#: A number of tokens: a whole number, or text such as `4096` or `4k`.
Tokens = Annotated[int, Field(ge=1), "token, such as 4096 or 4k", BeforeValidator(_tokens)]


def read_tokens(what: str, value: object) -> int:
    """A number of tokens.

    Raises:
        InputError: if it is none, or below 1 token.

    >>> read_tokens("the target", "4k")
    4096
    """
    return int(read(what, Tokens, value))


def spell(value: object) -> str:
    """A parameter's value as it is written in a name.

    >>> spell(False), spell(8.0), spell(0.5), spell("keep")
    ('off', '8', '0.5', 'keep')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return str(value).removesuffix(".0").replace("e+", "e")
    return str(value)


# ---- folders --------------------------------------------------------------------------------------------------


def is_folder(path: str | Path) -> bool:
    """Whether this folder exists; False also for text that cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises OSError or ValueError for some texts


def holds_model(path: str | Path) -> bool:
    """Whether this is a folder with a model in it."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("modules.json", "config.json"))  # noqa: PTH113, PTH118


# ---- aliases --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ZooEntry:
    """A base model, and the facts that its own files do not say."""

    hub_id: str  #: its name on the hub; its name in mteb's registry if `kind` is `mteb`
    #: pinned commit; None means the branch `main`, and the commit found there is recorded
    revision: str | None = None
    #: the longest input in tokens that the model was trained on, if its files do not say it or say it wrongly
    trained_len: int | None = None
    #: text before a query; None means the prompt of the model's own files, if there is one
    query_prompt: str | None = None
    document_prompt: str | None = None  #: text before a document; None means the same as for `query_prompt`
    #: `mean`, `cls` or `lasttoken`, for a repository without modules.json
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    append_eos: bool = False  #: whether every input ends with the end-of-sequence token
    #: configuration values that replace those of the repository
    config: Mapping[str, object] = field(default_factory=dict, hash=False)
    #: the factor by which the position table is interpolated already. Inputs of at most `trained_len` tokens read
    #: every `interpolation`-th row
    interpolation: int | None = None
    folder: str | None = None  #: of weights that ship with this package
    #: `hub` for models whose weights can be extended; `mteb` for models that only mteb can run
    kind: Literal["hub", "mteb"] = "hub"


# hub id -> commit and prompts, those of mteb's registry if it has the model. With them, `BASE+STRATEGY` means the same
# model with and without mteb.
_PUBLISHED = json.loads(Path(__file__).with_name("prompts.json").read_text(encoding="utf-8"))


def _entry(hub_id: str, **fields: Any) -> ZooEntry:
    return ZooEntry(hub_id=hub_id, **_PUBLISHED.get(hub_id, {}), **fields)


_MODELS = Path(__file__).parent / "models"
#: Alias -> model.
ZOO: dict[str, ZooEntry] = {
    # ours, shipped with the package
    "mini-ape": _entry("mteb-longembed/mini-ape", folder=str(_MODELS / "mini-ape")),
    "mini-rope": _entry("mteb-longembed/mini-rope", folder=str(_MODELS / "mini-rope")),
    # the paper's (Zhu et al. 2024, arXiv:2404.12096, Tables 2 and 3)
    "e5-base": _entry("intfloat/e5-base-v2", trained_len=512),
    # the authors' repository has no modules.json and no tokenizer length
    "e5-rope-base": _entry("dwzhu/e5rope-base", trained_len=512, pooling="mean"),
    # rows 0, 8, ..., 4088 of its table are e5-base's own
    "e5-base-4k": _entry("dwzhu/e5-base-4k", trained_len=512, pooling="mean", interpolation=8),
    "gte-base": _entry("thenlper/gte-base"),
    "bge-base": _entry("BAAI/bge-base-en-v1.5"),
    # no modules.json: masked mean, no normalisation, as its authors publish it
    "contriever": _entry("facebook/contriever", pooling="mean"),
    "gtr-base": _entry("sentence-transformers/gtr-t5-base", trained_len=512),
    # its files say 32,768 positions; its training used far fewer. The paper extends it from 4,096.
    "e5-mistral": _entry(
        "intfloat/e5-mistral-7b-instruct",
        trained_len=4096,
        pooling="lasttoken",
        append_eos=True,
        config={"sliding_window": None},
    ),
    "jina-v2": _entry("jinaai/jina-embeddings-v2-base-en"),
    # trained on 2,048 tokens; its files allow 8,192
    "nomic-v1": _entry("nomic-ai/nomic-embed-text-v1", trained_len=2048),
    "bge-m3": _entry("BAAI/bge-m3"),
    "ada-002": _entry("openai/text-embedding-ada-002", trained_len=8191, kind="mteb"),
    "bm25": _entry("mteb/baseline-bm25s", kind="mteb"),
    # models that people use now
    "nomic-v1.5": _entry("nomic-ai/nomic-embed-text-v1.5", trained_len=2048),
    "modernbert-embed": _entry("nomic-ai/modernbert-embed-base"),
    "gte-modernbert": _entry("Alibaba-NLP/gte-modernbert-base"),
    "qwen3-0.6b": _entry("Qwen/Qwen3-Embedding-0.6B", trained_len=32768),
    "qwen3-4b": _entry("Qwen/Qwen3-Embedding-4B", trained_len=32768),
    "qwen3-8b": _entry("Qwen/Qwen3-Embedding-8B", trained_len=32768),
    "embeddinggemma": _entry("google/embeddinggemma-300m"),
    "arctic-l-v2": _entry("Snowflake/snowflake-arctic-embed-l-v2.0"),
    "me5-small": _entry("intfloat/multilingual-e5-small"),
    "me5-base": _entry("intfloat/multilingual-e5-base"),
    "me5-large": _entry("intfloat/multilingual-e5-large"),
    # models of 2026; trained lengths are those of mteb's registry
    "nemotron3-1b": _entry("nvidia/Nemotron-3-Embed-1B-BF16", trained_len=32768),
    "nemotron3-8b": _entry("nvidia/Nemotron-3-Embed-8B-BF16", trained_len=32768),
    "harrier-270m": _entry("microsoft/harrier-oss-v1-270m", trained_len=32768),
    "harrier-0.6b": _entry("microsoft/harrier-oss-v1-0.6b", trained_len=32768),
    # its repository brings its own code: trust_remote_code=on
    "ultrabert": _entry("dmis-lab/UltraBERT-Embed-150M", trained_len=32768),
    "mdenseon": _entry("lightonai/mDenseOn", trained_len=8192),
    "granite-r2": _entry("ibm-granite/granite-embedding-english-r2", trained_len=8192),
    "granite-small-r2": _entry("ibm-granite/granite-embedding-small-english-r2", trained_len=8192),
    "granite-multi-r2": _entry("ibm-granite/granite-embedding-311m-multilingual-r2", trained_len=8192),
}
_BY_HUB_ID = {hub_id: _entry(hub_id) for hub_id in _PUBLISHED}
_BY_HUB_ID |= {entry.hub_id: entry for entry in ZOO.values()}


def entry_of(base: str) -> ZooEntry | None:
    """The entry of an alias or a hub id, None if we have none, or a folder of this name holds a model.

    A hub id and its alias are one model, so both give the same entry.

    >>> entry_of("e5-base") is entry_of("intfloat/e5-base-v2")
    True
    >>> entry_of("BAAI/bge-small-en-v1.5").query_prompt
    'Represent this sentence for searching relevant passages: '
    """
    if holds_model(base):
        return None
    return ZOO.get(base) or _BY_HUB_ID.get(base)


# ---- the grammar ----------------------------------------------------------------------------------------------

#: A name with a strategy. A key has no slash, as a folder's name may have, and no digit at its start, as `1e+5` has.
_EXTENDED = re.compile(
    r"(?P<base>.+)\+(?P<strategy>([^0-9+@:,/\\][^+@:,/\\]*)?)(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?",
    re.DOTALL,
)

#: mteb's name of its BM25.
MTEB_BM25 = "mteb/baseline-bm25s"
#: What a name may set that changes only the search, and no model. `retrieval/settings.py` reads the values.
SEARCH_SETTINGS = ("fusion", "lexical_weight", "temperature", "weights", "whiten", "score", "query", "expand")
#: What the name of a BM25 of ours may set.
BM25_SETTINGS = ("window", "query", "score", "expand")
#: A BM25 of ours: mteb's baseline or its alias, and at least a target or a setting. Version 0.7 had its own name.
_BM25 = re.compile(
    r"(mteb/baseline-bm25s|(mteb-longembed/)?bm25)(?=[@:,])(@(?P<target>[^:,]*))?([:,](?P<settings>.*))?"
)
#: The model of its neighbours, to the next setting of BM25's or the end.
_EXPAND = re.compile(rf"(?:^|,)expand=(?P<name>.+?)(?=,(?:{'|'.join(BM25_SETTINGS)})=|$)")


def is_extended_name(text: str) -> bool:
    """Whether we resolve this name: it is an alias of a model with weights, or it has a `+STRATEGY`.

    >>> is_extended_name("intfloat/e5-base-v2+ntk"), is_extended_name("intfloat/e5-base-v2")
    (True, False)
    >>> is_extended_name("e5-base"), is_extended_name("bm25"), is_extended_name("./c++/model")
    (True, False, False)
    >>> is_extended_name("e5-base:logn=on")  # which is none, and that is told
    True
    """
    # an alias with a target or settings but no strategy is an unknown name of ours
    alias = re.split("[@:,]", text)[0]
    is_named = split_name(text)[1] is not None or is_bm25_name(text)
    if alias in ZOO and alias != text:
        is_named = True
    return is_named or (text in ZOO and ZOO[text].kind == "hub")


def absolute_name(text: str) -> str:
    """Return a name in which the folder of a base is an absolute path, so that it holds in every working folder."""
    base = text if holds_model(text) else split_name(text)[0]
    if not is_folder(base):
        return text
    return os.path.abspath(base) + text[len(base) :]  # noqa: PTH100 - symbolic links keep their names


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


def name_of(base: str, experiment: Mapping[str, object] | None) -> str:
    """The name of a model, from that of its base and from mteb's experiment (`experiment_kwargs`) of it.

    All that is in an experiment is in the name, but for the version of our algorithms.

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


def revision_of(revision: str | None, experiment: Mapping[str, object] | None) -> str:
    """What tells results of a name apart: the base's revision, and the version of the algorithms of an experiment.

    >>> revision_of("1c644c92", {"strategy": "ntk", "algorithm": "le3"})
    '1c644c92-le3'
    """
    algorithm = (experiment or {}).get("algorithm")
    return str(revision) if algorithm is None else f"{revision}-{algorithm}"


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
    >>> bm25_settings("bm25:expand=e5-base+pcw:size=64,overlap=8,window=200")[1]
    {'expand': 'e5-base+pcw:size=64,overlap=8', 'window': '200'}
    """
    match = _BM25.fullmatch(text)
    if match is None:
        raise InputError(f"a BM25 of ours is written bm25:window=200 or bm25@512, got {text!r}.")
    settings = match["settings"] or ""
    model = _EXPAND.search(settings)
    if model is None:
        return match["target"], split_settings(text, settings)
    others = settings[: model.start()] + settings[model.end() :]
    given = split_settings(text, others.strip(","))
    if "expand" in given:
        raise InputError(f"a parameter may be given only once, got expand twice in {text!r}.")
    return match["target"], {"expand": model["name"], **given}


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
