"""The aliases: models of the paper, and models that people use today.

An entry holds only facts that the model's own files do not say. Revisions and prompts come from mteb's registry
(2.26) if it knows the model.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class ZooEntry:
    """A base model, and the facts that its own files do not say.

    Args:
        hub_id: its name on the hub; its name in mteb's registry if `kind` is `mteb`.
        revision: pinned commit; None means the branch `main`, and the commit found there is recorded.
        trained_len: the longest input in tokens that the model was trained on, if its files do not say it or say it
            wrongly.
        query_prompt: text before a query; None means the prompt of the model's own files, if there is one.
        document_prompt: text before a document; None means the same as for `query_prompt`.
        pooling: `mean`, `cls` or `lasttoken`, for a repository without modules.json.
        append_eos: whether every input ends with the end-of-sequence token.
        config: configuration values that replace those of the repository.
        stretch: the factor by which the position table is interpolated already. Inputs of at most `trained_len`
            tokens read every `stretch`-th row.
        bundled: folder inside `mteb_longembed/models`, for weights that ship with this package.
        kind: `hub` for models whose weights can be extended; `mteb` for models that only mteb can run.
    """

    hub_id: str
    revision: str | None = None
    trained_len: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    append_eos: bool = False
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    stretch: int | None = None
    bundled: str | None = None
    kind: Literal["hub", "mteb"] = "hub"

    @property
    def path(self) -> str:
        """The place to load from: a folder of this package, or the hub id."""
        return str(_PACKAGE / "models" / self.bundled) if self.bundled else self.hub_id


_E5: dict[str, Any] = {"query_prompt": "query: ", "document_prompt": "passage: "}
_NOMIC: dict[str, Any] = {"query_prompt": "search_query: ", "document_prompt": "search_document: "}
_BGE: dict[str, Any] = {
    "query_prompt": "Represent this sentence for searching relevant passages: ",
    "document_prompt": "",
}
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
_HARRIER: dict[str, Any] = {"query_prompt": _WEB_SEARCH.rstrip(" "), "document_prompt": ""}

#: Alias -> model.
ZOO: dict[str, ZooEntry] = {
    # ours, shipped with the package
    "mini-ape": ZooEntry(hub_id="mteb-longembed/mini-ape", bundled="mini-ape"),
    "mini-rope": ZooEntry(hub_id="mteb-longembed/mini-rope", bundled="mini-rope"),
    # the paper's (Zhu et al. 2024, arXiv:2404.12096, Tables 2 and 3)
    "e5-base": ZooEntry(
        hub_id="intfloat/e5-base-v2",
        revision="1c644c92ad3ba1efdad3f1451a637716616a20e8",
        trained_len=512,
        **_E5,
    ),
    # the authors' repository has no modules.json and no tokenizer length
    "e5-rope-base": ZooEntry(hub_id="dwzhu/e5rope-base", trained_len=512, pooling="mean", **_E5),
    # rows 0, 8, ..., 4088 of its table are e5-base's own
    "e5-base-4k": ZooEntry(
        hub_id="dwzhu/e5-base-4k",
        revision="1b5664b8cb2bccd8c309429b7bfe5864402e8fbc",
        trained_len=512,
        stretch=8,
        pooling="mean",
        **_E5,
    ),
    "gte-base": ZooEntry(hub_id="thenlper/gte-base", revision="c078288308d8dee004ab72c6191778064285ec0c"),
    "bge-base": ZooEntry(
        hub_id="BAAI/bge-base-en-v1.5", revision="a5beb1e3e68b9ab74eb54cfd186867f64f240e1a", **_BGE
    ),
    # no modules.json: masked mean, no normalisation, as its authors publish it
    "contriever": ZooEntry(
        hub_id="facebook/contriever", revision="2bd46a25019aeea091fd42d1f0fd4801675cf699", pooling="mean"
    ),
    "gtr-base": ZooEntry(
        hub_id="sentence-transformers/gtr-t5-base",
        revision="7027e9594267928589816394bdd295273ddc0739",
        trained_len=512,
    ),
    # its files say 32,768 positions; its training used far fewer. The paper extends it from 4,096.
    "e5-mistral": ZooEntry(
        hub_id="intfloat/e5-mistral-7b-instruct",
        revision="07163b72af1488142a360786df853f237b1a3ca1",
        trained_len=4096,
        query_prompt=_WEB_SEARCH,
        document_prompt="",
        pooling="lasttoken",
        append_eos=True,
        config={"sliding_window": None},
    ),
    "jina-v2": ZooEntry(
        hub_id="jinaai/jina-embeddings-v2-base-en", revision="6e85f575bc273f1fd840a658067d0157933c83f0"
    ),
    # trained on 2,048 tokens; its files allow 8,192
    "nomic-v1": ZooEntry(
        hub_id="nomic-ai/nomic-embed-text-v1",
        revision="0759316f275aa0cb93a5b830973843ca66babcf5",
        trained_len=2048,
        **_NOMIC,
    ),
    "bge-m3": ZooEntry(hub_id="BAAI/bge-m3", revision="5617a9f61b028005a4858fdac845db406aefb181"),
    "ada-002": ZooEntry(hub_id="openai/text-embedding-ada-002", trained_len=8191, kind="mteb"),
    "bm25": ZooEntry(hub_id="mteb/baseline-bm25s", kind="mteb"),
    # models that people use now
    "nomic-v1.5": ZooEntry(
        hub_id="nomic-ai/nomic-embed-text-v1.5",
        revision="b0753ae76394dd36bcfb912a46018088bca48be0",
        trained_len=2048,
        **_NOMIC,
    ),
    "modernbert-embed": ZooEntry(
        hub_id="nomic-ai/modernbert-embed-base", revision="5960f1566fb7cb1adf1eb6e816639cf4646d9b12", **_NOMIC
    ),
    "gte-modernbert": ZooEntry(
        hub_id="Alibaba-NLP/gte-modernbert-base", revision="7ca8b4ca700621b67618669f5378fe5f5820b8e4"
    ),
    "qwen3-0.6b": ZooEntry(
        hub_id="Qwen/Qwen3-Embedding-0.6B",
        revision="b22da495047858cce924d27d76261e96be6febc0",
        trained_len=32768,
    ),
    "qwen3-4b": ZooEntry(
        hub_id="Qwen/Qwen3-Embedding-4B",
        revision="636cd9bf47d976946cdbb2b0c3ca0cb2f8eea5ff",
        trained_len=32768,
    ),
    "qwen3-8b": ZooEntry(
        hub_id="Qwen/Qwen3-Embedding-8B",
        revision="4e423935c619ae4df87b646a3ce949610c66241c",
        trained_len=32768,
    ),
    "embeddinggemma": ZooEntry(
        hub_id="google/embeddinggemma-300m", revision="64614b0b8b64f0c6c1e52b07e4e9a4e8fe4d2da2"
    ),
    "arctic-l-v2": ZooEntry(
        hub_id="Snowflake/snowflake-arctic-embed-l-v2.0", revision="edc2df7b6c25794b340229ca082e7c78782e6374"
    ),
    "me5-small": ZooEntry(
        hub_id="intfloat/multilingual-e5-small", revision="fd1525a9fd15316a2d503bf26ab031a61d056e98", **_E5
    ),
    "me5-base": ZooEntry(
        hub_id="intfloat/multilingual-e5-base", revision="d13f1b27baf31030b7fd040960d60d909913633f", **_E5
    ),
    "me5-large": ZooEntry(
        hub_id="intfloat/multilingual-e5-large", revision="ab10c1a7f42e74530fe7ae5be82e6d4f11a719eb", **_E5
    ),
    # models of 2026; trained lengths are those of mteb's registry
    "embeddinggemma-2": ZooEntry(
        hub_id="google/embeddinggemma-2",
        revision="914f7f89142e33e77833254d9c9b90c3cef7303b",
        trained_len=8192,
    ),
    "nemotron3-1b": ZooEntry(
        hub_id="nvidia/Nemotron-3-Embed-1B-BF16",
        revision="f880174635613cff04033875fc6a69296cb72006",
        trained_len=32768,
    ),
    "nemotron3-8b": ZooEntry(
        hub_id="nvidia/Nemotron-3-Embed-8B-BF16",
        revision="dd9d06b1852ef836d3dc2fbd2b71a34356912759",
        trained_len=32768,
    ),
    "harrier-270m": ZooEntry(
        hub_id="microsoft/harrier-oss-v1-270m",
        revision="31de22b673913c7d658c0f03f792d77c2dcf8ebd",
        trained_len=32768,
        **_HARRIER,
    ),
    "harrier-0.6b": ZooEntry(
        hub_id="microsoft/harrier-oss-v1-0.6b",
        revision="f9b9dc8d367d443f2479d27aa5d8d2850c0774ee",
        trained_len=32768,
        **_HARRIER,
    ),
    # its repository brings its own code: trust_remote_code=on
    "ultrabert": ZooEntry(
        hub_id="dmis-lab/UltraBERT-Embed-150M",
        revision="367d5343b5a0164d57b810cedf5de4b8983d5984",
        trained_len=32768,
        query_prompt="Instruct: Given a question, retrieve passages that answer the question\nQuery: ",
        document_prompt="",
    ),
    # every token has a vector
    "gte-moderncolbert": ZooEntry(
        hub_id="lightonai/GTE-ModernColBERT-v1",
        revision="c1647d10d6edc6f70837f42f0a978f2df53f51dd",
        trained_len=8192,
    ),
    "mdenseon": ZooEntry(
        hub_id="lightonai/mDenseOn", revision="d61878b089bba2156fe029d3bb8ccaad368a6249", trained_len=8192
    ),
    "granite-r2": ZooEntry(
        hub_id="ibm-granite/granite-embedding-english-r2",
        revision="6e7b8ce0e76270394ac4669ba4bbd7133b60b7f9",
        trained_len=8192,
    ),
    "granite-small-r2": ZooEntry(
        hub_id="ibm-granite/granite-embedding-small-english-r2",
        revision="54a8d2616a0844355a5164432d3f6dafb37b17a3",
        trained_len=8192,
    ),
    "granite-multi-r2": ZooEntry(
        hub_id="ibm-granite/granite-embedding-311m-multilingual-r2",
        revision="dba7b0ee9d789f330fecfb85df57699f9e7d9c42",
        trained_len=8192,
    ),
}


def entry_of(base: str) -> ZooEntry | None:
    """The entry of an alias or a hub id, None if we have none.

    A hub id and its alias are one model, so both give the same entry.

    >>> entry_of("e5-base") is entry_of("intfloat/e5-base-v2")
    True
    >>> entry_of("BAAI/bge-small-en-v1.5").query_prompt
    'Represent this sentence for searching relevant passages: '
    """
    if base in ZOO:
        return ZOO[base]
    return _by_hub_id().get(base)


@functools.cache
def _by_hub_id() -> dict[str, ZooEntry]:
    # prompts.json: hub id -> commit and prompts of more models of mteb's registry. With it, `BASE+STRATEGY` means
    # the same model with and without mteb.
    file = resources.files(__package__).joinpath("prompts.json")
    further = json.loads(file.read_text(encoding="utf-8"))
    known = {hub_id: ZooEntry(hub_id=hub_id, **fields) for hub_id, fields in further.items()}
    return known | {entry.hub_id: entry for entry in ZOO.values()}
