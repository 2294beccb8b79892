"""How a candidate is had as an object and as a folder, for a pipeline or a database of one's own."""

import json
import shlex
from contextlib import suppress

from mteb_longembed.encoders.checkpoint import ModelSpec, open_checkpoint
from mteb_longembed.encoders.export import check_exportable
from mteb_longembed.errors import IncompatibleError

from .candidates import Candidate
from .verdict import listed


def way_out(candidate: Candidate) -> str:
    """What to type for a candidate's model in a folder, and what is then left to a search; empty for one's own scorer.

    A model without settings of search is exported, if a plain checkpoint can be it, or else saved. Weights and
    whitening are fitted on documents. How vectors of a document count, sentences and words are no part of a model.
    """
    if candidate.kind == "own":
        return ""
    searched = _quoted(candidate.name)
    if candidate.chunker is not None:
        searched += f", chunker={candidate.chunker.name}"
    if candidate.model is None or candidate.chunker is not None:
        return f"mteb_longembed.search({searched}) is an object that has all of it."
    settings = candidate.search
    made = _made(candidate, candidate.model)
    left = [f"{key}={value}" for key, value in settings.given.items() if key not in ("weights", "whiten")]
    if not left:
        return made
    return (
        f"{made} has its vectors, which a database takes (docs/search.md); mteb_longembed.search({searched}) has "
        f"{listed(left)} too."
    )


def _made(candidate: Candidate, model: ModelSpec) -> str:
    """What makes a folder of the model of a candidate."""
    encoder = _quoted(candidate.encoder)
    settings = candidate.search
    if settings.weights is not None or settings.whiten is not None:
        fitted = f"documents, weights={settings.weights!r}, whiten={settings.whiten or 0:g}"
        return f'mteb_longembed.adapt({encoder}, {fitted}).save_pretrained("FOLDER")'
    if not settings:
        with suppress(IncompatibleError):
            check_exportable(open_checkpoint(model))
            return f"mteb-longembed export {shlex.quote(candidate.encoder)} FOLDER"
    return f'mteb_longembed.load({encoder}).save_pretrained("FOLDER")'


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
