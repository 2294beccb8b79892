"""Read and write the names of searches: a model and its search settings."""

from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.errors import InputError
from mteb_longembed.names import SEARCH_SETTINGS, ModelName

from .settings import SearchSettings


def read_name(text: str) -> tuple[ModelSpec, SearchSettings]:
    """Read the model and the search settings of a name.

    Raises:
        InputError: if the name or a value breaks a rule.
    """
    name = ModelName.parse(text)
    settings = {key: name.settings[key] for key in SEARCH_SETTINGS if key in name.settings}
    if "expand" in settings:
        raise InputError(
            f"expand is a setting of BM25 alone, got it in {text!r}: leave it out, because fusion=bm25 expands queries "
            "by the model itself."
        )
    return ModelSpec.of_name(name.without(settings)), SearchSettings(**settings)


def typed_name(spec: ModelSpec, settings: SearchSettings | None = None) -> str:
    """Return the name as people type it: with a colon before the settings, where a canonical name has a comma.

    Args:
        spec: the model.
        settings: the search; None for the model alone.
    """
    text = spec.name((settings or SearchSettings()).given)
    return spec.base + text[len(spec.base) :].replace(",", ":", 1)
