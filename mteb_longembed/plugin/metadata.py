"""mteb's description of a resolved model: its `ModelMeta`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .loading import load_encoder

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

    from mteb_longembed.encoders.bases.resolve import ResolvedModel

#: Fields of a base's ModelMeta that are not true for the model made from it.
_OF_ANY_MODEL: dict[str, Any] = {
    "loader_kwargs": {},
    "experiment_kwargs": None,
    "superseded_by": None,
    # packages that the base's own loader needs; our loader does not
    "extra_requirements_groups": None,
    "framework": ["Sentence Transformers", "PyTorch"],
    "modalities": ["text"],
    "output_dtypes": None,
}


def model_meta(resolved: ResolvedModel, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """The metadata of an extended model, from its base's metadata, its own files, and the extension.

    Args:
        resolved: the model.
        find: returns mteb's own entry of a name, or None.
    """
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    from mteb_longembed.retrieval.searching import search_revision

    base, origin = resolved.base, resolved.origin
    several = resolved.vectors is not None
    kind = "hybrid" if resolved.spec.fuse else "late-interaction" if several else "dense"
    known = find(origin.name) if origin else None
    fields: dict[str, Any] = {} if known is None else {name: getattr(known, name) for name in _OF_FILES}
    missing = [name for name in _OF_FILES if fields.get(name) is None]
    if base.saved or missing:
        said = _said_by_files(resolved)
        # the files of a saved model describe the extended model
        own = [*_OF_SAVED, *missing] if base.saved else missing
        fields |= {name: said[name] for name in own if said[name] is not None}
    prompts = base.entry is not None and bool(base.entry.query_prompt or base.entry.document_prompt)
    if several:
        fields["similarity_fn_name"] = ScoringFunction.MAX_SIM
    return (known or ModelMeta.create_empty()).model_copy(
        update={
            **_OF_ANY_MODEL,
            **fields,
            "name": resolved.name,
            "revision": resolved.revision + search_revision(resolved.spec.search),
            "model_type": [kind],
            "loader": functools.partial(load_encoder, resolved),
            "max_tokens": resolved.strategy.target_len,
            "embed_dim": _widths(fields.get("embed_dim")),
            "adapted_from": origin.name if origin else None,
            "use_instructions": bool(fields.get("use_instructions")) or prompts,
        }
    )


#: Fields that come from a model's files if mteb's entry of its base does not have them.
_OF_FILES = (
    "n_parameters",
    "n_embedding_parameters",
    "memory_usage_mb",
    "embed_dim",
    "license",
    "languages",
    "release_date",
    "open_weights",
    "reference",
    "similarity_fn_name",
    "use_instructions",
)
#: Those of them for which the files of a saved model are more exact than the entry of its base.
_OF_SAVED = (
    "n_parameters",
    "memory_usage_mb",
    "embed_dim",
    "similarity_fn_name",
    "release_date",
    "reference",
)


def _said_by_files(resolved: ResolvedModel) -> dict[str, Any]:
    """The fields of `_OF_FILES` from a model's own files. None for a field that they do not have."""
    from mteb.models.model_meta import ScoringFunction

    from mteb_longembed.encoders.bases.facts import facts

    base = resolved.base
    found = facts(base)
    local = base.files.local
    comparisons = {each.value: each for each in ScoringFunction}
    return {
        "n_parameters": found.n_parameters,
        "n_embedding_parameters": found.n_embedding_parameters,
        "memory_usage_mb": found.memory_mb,
        "embed_dim": found.width,
        "license": _licence(found.card),
        "languages": _languages(found.card.get("language")),
        "release_date": found.published,
        "open_weights": None if local and base.entry is None else True,
        "reference": None if local else f"https://huggingface.co/{base.name}",
        # sentence-transformers' default is the cosine
        "similarity_fn_name": comparisons.get(found.similarity or "cosine"),
        "use_instructions": found.prompts,
    }


def _licence(card: Mapping[str, Any]) -> str | None:
    """The short name of the licence on the hub. If it has none, the address of its text."""
    said, link = card.get("license"), card.get("license_link")
    if isinstance(said, str) and said != "other":
        return said
    return link if isinstance(link, str) and link.startswith("http") else None


def _languages(said: Any) -> list[str] | None:
    """Language codes in mteb's form, such as `eng-Latn`."""
    from mteb.languages import iso_mappings

    convert = getattr(iso_mappings, "_hf_langs_to_iso_lang_scripts", None)
    found = None if convert is None or not isinstance(said, (str, list)) else convert(said)
    return list(found) if found else None


def _widths(known: int | Sequence[int] | None) -> Sequence[int] | int | None:
    """The widths to which mteb may cut embeddings: any width up to the full one, as in sentence-transformers."""
    return range(1, known + 1) if isinstance(known, int) else known
