"""What mteb must know of a resolved model: its `ModelMeta`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .loading import load_encoder

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

    from mteb_longembed.encoders.bases.resolve import ResolvedModel

#: Fields of a base's ModelMeta that do not hold for the model made of it.
_OF_ANY_MODEL: dict[str, Any] = {
    "loader_kwargs": {},
    "experiment_kwargs": None,
    "superseded_by": None,
    # packages that the base's own loader needs; ours is another
    "extra_requirements_groups": None,
    "framework": ["Sentence Transformers", "PyTorch"],
    "modalities": ["text"],
    "output_dtypes": None,
}


def model_meta(resolved: ResolvedModel, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """The metadata of an extended model: its base's, with what the extension changes.

    Args:
        resolved: the model.
        find: mteb's own entry of a name, None where it has none.
    """
    from mteb.models.model_meta import ScoringFunction

    from mteb_longembed.retrieval.searching import search_revision

    base, entry = resolved.base, resolved.base.entry
    several = resolved.representation.vectors is not None
    kind = "hybrid" if resolved.search.fuse else "late-interaction" if several else "dense"
    origin = resolved.origin
    known = (find(origin.name) if origin else None) or _unknown_to_mteb(base.name, base.config)
    prompts = entry is not None and bool(entry.query_prompt or entry.document_prompt)
    return known.model_copy(
        update={
            **_OF_ANY_MODEL,
            "name": resolved.name,
            "revision": resolved.revision + search_revision(resolved.search),
            "model_type": [kind],
            "similarity_fn_name": ScoringFunction.MAX_SIM if several else known.similarity_fn_name,
            "loader": functools.partial(load_encoder, resolved),
            "max_tokens": resolved.strategy.target_len,
            "embed_dim": _widths(known.embed_dim),
            "adapted_from": resolved.origin.name if resolved.origin else None,
            "use_instructions": known.use_instructions or prompts,
        }
    )


def _widths(known: int | Sequence[int] | None) -> Sequence[int] | int | None:
    """The widths to which mteb lets embeddings be cut: any up to the whole one, as sentence-transformers does."""
    return range(1, known + 1) if isinstance(known, int) else known


def _unknown_to_mteb(name: str, config: Any) -> ModelMeta:
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    return ModelMeta.create_empty(
        {
            "name": name,
            "similarity_fn_name": ScoringFunction.COSINE,
            "embed_dim": getattr(config, "hidden_size", None),
        }
    )
