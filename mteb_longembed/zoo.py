"""Names of bases: aliases of published models, with the facts that their own files lack, hub ids and folders.

`prompts.json` has commits and prompts of published models, from mteb's registry (2.26) if it knows the model.
No torch, no mteb.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mteb_longembed.errors import InputError, UnknownNameError, nearest
from mteb_longembed.presets import LEXICAL, PRESETS

#: The organisation of a name without one, as sentence-transformers reads such names.
_ORGANISATION = "sentence-transformers"
#: A target or a setting after a base without a strategy. Hub ids, and most folders, have no such characters.
_TAIL = re.compile(r"(?P<base>.+?)(?P<tail>@[^/\\@:,]+([:,].*)?|[:,]\s*\w+=.*)")


def is_folder(path: str | Path) -> bool:
    """Return whether a folder exists; False for text that cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises OSError or ValueError for some texts


def holds_model(path: str | Path) -> bool:
    """Return whether a path is a folder with a model."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("modules.json", "config.json"))  # noqa: PTH113, PTH118


@dataclass(frozen=True, kw_only=True)
class ZooEntry:
    """A base model, and the facts that its own files lack."""

    hub_id: str  #: its name on the hub; its name in mteb's registry if `source` is `mteb`
    #: pinned commit; None means the branch `main`, and the commit found there is recorded
    revision: str | None = None
    #: the longest input in tokens that the model was trained on, if its files lack it or are wrong
    trained_len: int | None = None
    #: text before a query; None means the prompt of the model's own files, if there is one
    query_prompt: str | None = None
    document_prompt: str | None = None  #: text before a document; None means the same as for `query_prompt`
    #: `mean`, `cls` or `lasttoken`, for a repository without modules.json
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    append_eos: bool = False  #: whether every input ends with the end-of-sequence token
    #: configuration values that replace the repository's values
    config: Mapping[str, object] = field(default_factory=dict, hash=False)
    #: the factor by which the position table is interpolated already. Inputs of at most `trained_len` tokens read
    #: every `interpolation`-th row
    interpolation: int | None = None
    folder: str | None = None  #: folder of weights that ship with this package
    #: `hub` for models whose weights can be extended; `mteb` for models that only mteb can run
    source: Literal["hub", "mteb"] = "hub"


# hub id -> commit and prompts, from mteb's registry if it has the model. With them, `BASE+STRATEGY` means the same
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
    "ada-002": _entry("openai/text-embedding-ada-002", trained_len=8191, source="mteb"),
    "bm25": _entry("mteb/baseline-bm25s", source="mteb"),
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
    # models of 2026; trained lengths come from mteb's registry
    "nemotron3-1b": _entry("nvidia/Nemotron-3-Embed-1B-BF16", trained_len=32768),
    "nemotron3-8b": _entry("nvidia/Nemotron-3-Embed-8B-BF16", trained_len=32768),
    "harrier-270m": _entry("microsoft/harrier-oss-v1-270m", trained_len=32768),
    "harrier-0.6b": _entry("microsoft/harrier-oss-v1-0.6b", trained_len=32768),
    # its repository has its own code: trust_remote_code=on
    "ultrabert": _entry("dmis-lab/UltraBERT-Embed-150M", trained_len=32768),
    "mdenseon": _entry("lightonai/mDenseOn", trained_len=8192),
    "granite-r2": _entry("ibm-granite/granite-embedding-english-r2", trained_len=8192),
    "granite-small-r2": _entry("ibm-granite/granite-embedding-small-english-r2", trained_len=8192),
    "granite-multi-r2": _entry("ibm-granite/granite-embedding-311m-multilingual-r2", trained_len=8192),
    # late interaction; the trained length of the first one is from mteb's registry
    "gte-moderncolbert": _entry("lightonai/GTE-ModernColBERT-v1", trained_len=8192),
    "colbertv2": _entry("colbert-ir/colbertv2.0"),
    "mxbai-colbert-17m": _entry("mixedbread-ai/mxbai-edge-colbert-v0-17m"),
    "mxbai-colbert-32m": _entry("mixedbread-ai/mxbai-edge-colbert-v0-32m"),
    # learned sparse models; the second one reads queries by a table
    "splade-v3": _entry("naver/splade-v3"),
    "opensearch-doc-v3": _entry("opensearch-project/opensearch-neural-sparse-encoding-doc-v3-distill"),
}
_BY_HUB_ID = {hub_id: _entry(hub_id) for hub_id in _PUBLISHED}
_BY_HUB_ID |= {entry.hub_id: entry for entry in ZOO.values()}


def entry_of(base: str) -> ZooEntry | None:
    """Return the entry of an alias or a hub id; None if we have none, or a folder of this name holds a model.

    A hub id and its alias have the same entry.

    >>> entry_of("e5-base") is entry_of("intfloat/e5-base-v2")
    True
    >>> entry_of("BAAI/bge-small-en-v1.5").query_prompt
    'Represent this sentence for searching relevant passages: '
    """
    if holds_model(base):
        return None
    return ZOO.get(base) or _BY_HUB_ID.get(base)


def full_base(name: str) -> str:
    """Return the alias, folder or hub id for the name of a base.

    Raises:
        InputError: if a target or settings follow it, or it is the name of a preset.
        UnknownNameError: if the name is not a hub id, or nearly an alias.

    >>> full_base("e5-base"), full_base("all-MiniLM-L6-v2")
    ('e5-base', 'sentence-transformers/all-MiniLM-L6-v2')
    """
    if name in ZOO:
        return name
    check_no_settings(name)
    if re.search(r"[/\\]", name) or is_folder(name):
        return name
    if name in (*PRESETS, LEXICAL):
        raise InputError(f"{name} is a preset, which needs a model, such as mini-rope+{name}: name one.")
    full = f"{_ORGANISATION}/{name}"
    if entry_of(full) is None and (nearest(name, ZOO) or not re.fullmatch(r"\w[\w.-]*", name)):
        raise UnknownNameError(
            "base (not an alias, a folder or a hub id such as ORGANISATION/NAME)", name, ZOO
        )
    return full


def is_path(name: str) -> bool:
    """Return whether a name can only be the path of a folder: a hub id has one slash, and no dot or `~` before it.

    >>> is_path("./my-model"), is_path("models/mine/last"), is_path("intfloat/e5-base-v2"), is_path("e5-base")
    (True, True, False, False)
    """
    return name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1


def check_folder(name: str) -> None:
    """Raise InputError if a name is a path at which there is no folder."""
    if not is_path(name) or is_folder(name):
        return
    found = "a file" if os.path.exists(name) else "nothing"  # noqa: PTH110 - any text may come here
    raise InputError(
        f"{name!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME: found {found} there; "
        "check the path."
    )


def check_no_settings(base: str) -> None:
    """Raise InputError if a target or settings follow a base without a strategy."""
    match = None if is_folder(base) else _TAIL.fullmatch(base)
    if match is not None:
        raise InputError(
            f"a target and settings must follow +STRATEGY, such as {match['base']}+pcw{match['tail']}, got {base!r}."
        )
