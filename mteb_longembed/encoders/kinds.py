"""The kinds of models: dense, late interaction, sparse."""

from collections.abc import Sequence
from typing import Literal

from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel

from .vectors import GroupByDocument

#: A model that embeds texts.
EmbeddingModel = SentenceTransformer | MultiVectorEncoder | SparseEncoder
#: What a base returns for a text: one dense vector, a vector per token, or a weight per term of its vocabulary.
Kind = Literal["dense", "late-interaction", "sparse"]
#: The class of sentence-transformers for each kind of base.
KINDS: dict[Kind, type[EmbeddingModel]] = {
    "dense": SentenceTransformer,
    "late-interaction": MultiVectorEncoder,
    "sparse": SparseEncoder,
}
#: The entry `model_type` of config_sentence_transformers.json, or parts of the class names of modules -> the kind.
#: `ColBERT` is PyLate's, and `GroupByDocument` is in our dense models with several vectors.
_TYPES: dict[str, Kind] = {
    "SparseEncoder": "sparse",
    "MultiVectorEncoder": "late-interaction",
    "ColBERT": "late-interaction",
}
_MODULES: dict[str, Kind] = {
    "GroupByDocument": "dense",
    "sparse_encoder.": "sparse",
    "multi_vector_encoder.": "late-interaction",
    "pylate.": "late-interaction",
}


def kind_of_modules(types: Sequence[str], model_type: object) -> Kind:
    """Infer the kind of a base from the classes of its modules and from `model_type`."""
    shown = " ".join(types)
    by_modules = [kind for part, kind in _MODULES.items() if part in shown]
    return (by_modules or [_TYPES.get(str(model_type), "dense")])[0]


def kind_of_loaded(model: BaseModel) -> Kind:
    """Return the kind of a loaded model; dense for our models with several vectors of a dense base."""
    if isinstance(model[-1], GroupByDocument):
        return "dense"
    return next(kind for kind, owner in KINDS.items() if isinstance(model, owner))
