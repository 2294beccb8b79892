"""The scorer of a name, for `search`, `index` and `compare`."""

import mteb

from mteb_longembed.errors import HubError, LongEmbedError, ModelError
from mteb_longembed.hub import hub_answers, offline_without_hub, translate_hub_errors, unreachable

from .experiments import is_own, load_own
from .lexical import make_bm25
from .make import scorer_of
from .scorer import Scorer
from .settings import BM25Settings, is_bm25


def make_scorer(name: str, device: str | None = None) -> Scorer:
    """Return the scorer of a name: of an extended model, with or without search settings, or of any model of mteb's.

    Args:
        name: as for `mteb run -m`. A folder alone means `+none`, and `bm25` is ours.
        device: device of the model.

    Raises:
        HubError: if the hub cannot be reached, and the cache lacks the model.
        ModelError: if mteb cannot load the model.
    """
    if name == "bm25" or is_bm25(name):
        return make_bm25(BM25Settings.parse(name), device)
    if is_own(name):
        return scorer_of(load_own(name, device))
    try:
        with offline_without_hub(), translate_hub_errors():
            return scorer_of(mteb.get_model(name, device=device))
    except HubError:
        if hub_answers():
            raise
        raise unreachable(name) from None
    except LongEmbedError:
        raise
    except (OSError, ValueError, LookupError, NotImplementedError, ImportError) as error:
        if isinstance(error, OSError) and not hub_answers():
            raise unreachable(name) from error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"mteb cannot load {name!r} ({reason[:160]}): check the name.") from error
