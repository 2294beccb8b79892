"""The families of models: dense, late interaction, sparse."""

from collections.abc import Sequence
from typing import Literal

from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel

from .vectors import GroupByDocument

#: A model that embeds texts.
EmbeddingModel = SentenceTransformer | MultiVectorEncoder | SparseEncoder
#: What a base returns for a text: one dense vector, a vector per token, or a weight per term of its vocabulary.
Family = Literal["dense", "late-interaction", "sparse"]
#: The class of sentence-transformers for each family.
STOCK_CLASSES: dict[Family, type[EmbeddingModel]] = {
    "dense": SentenceTransformer,
    "late-interaction": MultiVectorEncoder,
    "sparse": SparseEncoder,
}
#: The entry `model_type` of config_sentence_transformers.json, or parts of the class names of modules -> the family.
#: `ColBERT` is PyLate's, and `GroupByDocument` is in our dense models with several vectors.
_TYPES: dict[str, Family] = {
    "SparseEncoder": "sparse",
    "MultiVectorEncoder": "late-interaction",
    "ColBERT": "late-interaction",
}
_MODULES: dict[str, Family] = {
    "GroupByDocument": "dense",
    "sparse_encoder.": "sparse",
    "multi_vector_encoder.": "late-interaction",
    "pylate.": "late-interaction",
}


def family_of_modules(types: Sequence[str], model_type: object) -> Family:
    """Infer the family of a base from the classes of its modules and from `model_type`."""
    shown = " ".join(types)
    by_modules = [family for part, family in _MODULES.items() if part in shown]
    return (by_modules or [_TYPES.get(str(model_type), "dense")])[0]


def family_of(model: BaseModel) -> Family:
    """Return the family of a loaded model; dense for our models with several vectors of a dense base."""
    if isinstance(model[-1], GroupByDocument):
        return "dense"
    return next(family for family, owner in STOCK_CLASSES.items() if isinstance(model, owner))
