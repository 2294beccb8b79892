import re
from pathlib import Path

from mteb_longembed.names import ZOO, entry_of

PAPER = {
    "e5-base": "intfloat/e5-base-v2",
    "e5-rope-base": "dwzhu/e5rope-base",
    "e5-base-4k": "dwzhu/e5-base-4k",
    "gte-base": "thenlper/gte-base",
    "bge-base": "BAAI/bge-base-en-v1.5",
    "contriever": "facebook/contriever",
    "gtr-base": "sentence-transformers/gtr-t5-base",
    "e5-mistral": "intfloat/e5-mistral-7b-instruct",
    "jina-v2": "jinaai/jina-embeddings-v2-base-en",
    "nomic-v1": "nomic-ai/nomic-embed-text-v1",
    "bge-m3": "BAAI/bge-m3",
    "ada-002": "openai/text-embedding-ada-002",
    "bm25": "mteb/baseline-bm25s",
}


def test_every_model_of_the_paper_has_its_alias() -> None:
    assert {alias: ZOO[alias].hub_id for alias in PAPER} == PAPER


#: What the files of a model do not say, or say wrongly: by its paper, its card or mteb's registry.
TRAINED = {
    "e5-base": 512, "e5-rope-base": 512, "e5-base-4k": 512, "gtr-base": 512, "e5-mistral": 4096, "nomic-v1": 2048,
    "ada-002": 8191, "nomic-v1.5": 2048, "qwen3-0.6b": 32768, "qwen3-4b": 32768, "qwen3-8b": 32768,
    "nemotron3-1b": 32768, "nemotron3-8b": 32768, "harrier-270m": 32768, "harrier-0.6b": 32768, "ultrabert": 32768,
    "mdenseon": 8192, "granite-r2": 8192, "granite-small-r2": 8192, "granite-multi-r2": 8192,
}  # fmt: skip


def test_trained_lengths_are_those_of_the_models() -> None:
    assert {alias: entry.trained_len for alias, entry in ZOO.items() if entry.trained_len} == TRAINED


def test_aliases_are_short_and_each_is_one_entry_with_its_hub_id_at_a_whole_commit() -> None:
    assert len({entry.hub_id for entry in ZOO.values()}) == len(ZOO)
    for alias, entry in ZOO.items():
        assert re.fullmatch(r"[a-z0-9.-]{3,20}", alias)
        assert entry_of(entry.hub_id) is entry is entry_of(alias)
        assert not entry.revision or re.fullmatch(r"[0-9a-f]{40}", entry.revision), alias
    assert entry_of("org/unheard-of") is None


def test_a_bundled_model_lies_inside_the_package_with_its_weights() -> None:
    package = Path(__file__).parents[1] / "mteb_longembed"
    assert Path(ZOO["mini-rope"].path) == package / "models" / "mini-rope"
    assert ZOO["e5-base"].path == "intfloat/e5-base-v2"
    for entry in ZOO.values():
        assert not entry.bundled or list(Path(entry.path).rglob("*.safetensors"))


def test_prompts_and_revisions_are_those_of_mteb() -> None:
    """mteb may move on; then this tells which entry to look at."""
    from mteb.models.model_implementations import MODEL_REGISTRY

    entries = [entry for name in MODEL_REGISTRY if (entry := entry_of(name)) and entry.kind == "hub"]
    assert len(entries) > 60
    for entry in entries:
        meta = MODEL_REGISTRY[entry.hub_id]
        assert meta.revision == entry.revision, entry.hub_id
        prompts = meta.loader_kwargs.get("model_prompts", {})
        query = prompts.get("Retrieval-query") or prompts.get("query")
        if query:
            assert entry.query_prompt == query, entry.hub_id
