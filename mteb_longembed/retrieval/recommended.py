"""The recommended search for a model name without a strategy."""

from mteb_longembed.errors import LongEmbedError
from mteb_longembed.names import is_lexical, split_name
from mteb_longembed.presets import LEXICAL, LEXICAL_MEANING, PRESETS
from mteb_longembed.zoo import check_folder, entry_of, full_base, holds_model

#: For dense models that average their tokens, and for all others, such as late-interaction and sparse models
#: (experiments/methods.md).
RECOMMENDED = "hybrid"
WITHOUT_AVERAGES = "windows:fusion=bm25"


def recommended(name: str) -> str:
    """Return the full name of the search for a bare model. Names with a strategy, BM25 and APIs are unchanged.

    Raises:
        InputError, UnknownNameError: as `full_base` does, before anything large is imported.
    """
    entry = entry_of(name)
    is_bare = holds_model(name) or (split_name(name)[1] is None and not is_lexical(name))
    if not is_bare or (entry is not None and entry.source == "mteb"):
        return name
    check_folder(full_base(name))
    from mteb_longembed.encoders.method import Method
    from mteb_longembed.encoders.resolved import resolve

    try:
        base = resolve(Method.parse(name)).base
    except LongEmbedError:
        return name  # mteb may know it, or raises the error
    if base.saved_strategy is not None:
        return name  # it is extended already
    averages = base.family == "dense" and base.pooling in (None, "mean")
    preset = RECOMMENDED if averages else WITHOUT_AVERAGES
    return f"{name}+{preset}"


def describe(name: str) -> str:
    """Describe a preset in half a line; empty for other names."""
    if split_name(name)[1] == LEXICAL:
        return LEXICAL_MEANING
    preset = PRESETS.get(name.rpartition("+")[2])
    return "" if preset is None else preset.meaning
