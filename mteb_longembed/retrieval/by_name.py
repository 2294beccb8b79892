"""The scorer of a name, for `search`, `index` and `compare`."""

import mteb
from mteb.models.model_implementations import MODEL_REGISTRY

from mteb_longembed.bm25_names import is_bm25_name
from mteb_longembed.encoders.build import load_checkpoint
from mteb_longembed.errors import LongEmbedError, ModelError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.names import is_extended_name
from mteb_longembed.zoo import holds_model

from .experiments import model_meta, resolve
from .make import LoadedModel, loaded_search, make_bm25, scorer_of
from .scorer import Scorer
from .settings import BM25Settings


def make_scorer(name: str, device: str | None = None) -> Scorer:
    """Return the scorer of a name: of an extended model, with or without search settings, or of any model of mteb's.

    Args:
        name: as for `mteb run -m`. A folder alone means `+none`, and `bm25` is ours.
        device: device of the model.

    Raises:
        ModelError: if mteb cannot load the model.
    """
    if name == "bm25" or is_bm25_name(name):
        return make_bm25(BM25Settings.parse(name), device)
    if is_own(name):
        return scorer_of(load_own(name, device))
    try:
        with translate_hub_errors():
            return scorer_of(mteb.get_model(name, device=device))
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error


def is_own(name: str) -> bool:
    """Return whether a name is an extended model's, or the folder of a model."""
    return is_extended_name(name) or holds_model(name)


def load_own(name: str, device: str | None = None) -> LoadedModel:
    """Load the object that searches by one of our names. mteb's registry is not asked for it.

    Raises:
        LongEmbedError: if the name is invalid, does not fit its base, or the base cannot be loaded.
    """
    checkpoint, settings = resolve(name)
    loaded = loaded_search(load_checkpoint(checkpoint, device), settings)
    loaded.mteb_model_meta = model_meta(checkpoint, MODEL_REGISTRY.get, settings)
    return loaded
