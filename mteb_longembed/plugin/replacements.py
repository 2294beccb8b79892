"""What replaces functions of mteb: for models of ours, for our errors, and for the last line of a run."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import INTERRUPTED, LongEmbedError
from mteb_longembed.names import ZOO, holds_model, is_extended_name, name_of
from mteb_longembed.reports.results import PREFIXES

from .mteb_parts import part

if TYPE_CHECKING:
    import argparse

    from mteb.models.model_meta import ModelMeta
    from mteb.results import ModelResult
    from sentence_transformers.base import BaseModel

#: `1` also shows the traceback of our errors.
TRACEBACK_VARIABLE = "MTEB_LONGEMBED_TRACEBACK"


def find_model(
    find: Callable[..., ModelMeta],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool = False,
    fill_missing: bool = False,
    experiment_kwargs: Mapping[str, Any] | None = None,
) -> ModelMeta:
    """`mteb.get_model_meta`, which also knows the names of our models, folders, and repositories that we saved.

    A strategy in `experiment_kwargs` asks for the same model as `BASE+STRATEGY` does. Plain names that mteb does not
    know are asked for on the hub if mteb itself would ask (`fetch_from_hf`).
    """
    if "strategy" in (experiment_kwargs or {}):
        model_name, experiment_kwargs = name_of(model_name, experiment_kwargs), None
    entry = ZOO.get(model_name)
    if entry is not None and entry.kind == "mteb":
        model_name = entry.hub_id
    known = part("mteb.models.model_implementations", "MODEL_REGISTRY")
    # cheap tests come first: mteb looks up hundreds of names, and only ours need the import of torch
    is_ours = model_name not in known and (
        is_extended_name(model_name)
        or holds_model(model_name)
        or (fetch_from_hf and _is_own_repository(model_name, revision))
    )
    if not is_ours:
        return find(model_name, revision, fetch_from_hf, fill_missing, experiment_kwargs)
    from .metadata import meta_of_name

    return meta_of_name(model_name, revision, known.get)


def _is_own_repository(name: str, revision: str | None) -> bool:
    from mteb_longembed.encoders.base import TRUNK, Files

    try:
        return TRUNK in [module["type"] for module in Files.open(name, revision).modules()]
    except LongEmbedError:  # mteb reports it in its own way
        return False


def describe_loaded(
    described: Callable[..., ModelMeta],
    cls: type[ModelMeta],
    model: BaseModel,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`ModelMeta.from_..._model`, with which an evaluation of a model in memory begins.

    A model of ours is described as its name is. One that was changed after it was loaded is `local/NAME`, with its
    digest as revision.
    """
    with warnings.catch_warnings():
        # mteb warns about its own default of a parameter, and calls a method by its old name
        warnings.filterwarnings("ignore", "The fill_missing parameter", DeprecationWarning)
        warnings.filterwarnings("ignore", "The `get_sentence_embedding_dimension` method", FutureWarning)
        meta = described(cls, model, *args, **kwargs)
    # before this module is imported, no model can be one of ours
    if "mteb_longembed.encoders.model" not in sys.modules:
        return meta
    from mteb_longembed.encoders.model import LongModelMixin

    if not isinstance(model, LongModelMixin):
        return meta
    from .metadata import model_meta

    if model.checkpoint is not None:
        known = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        own = {key: getattr(meta, key) for key in ("embed_dim", "max_tokens", "loader")}
        meta = model_meta(model.checkpoint, known.get).model_copy(update=own)
    now = model.identity()
    fields = {
        "name": now.base,
        "revision": now.revision,
        "experiment_kwargs": now.experiment,
        "adapted_from": now.changed_from or meta.adapted_from,
    }
    return meta.model_copy(update=fields)


def main_in_one_sentence(main: Callable[..., object], *args: object, **kwargs: object) -> object:
    """The main function of mteb's command, in which our errors become one sentence and an exit status.

    Other errors are raised as before. Only this function is changed, not `sys.excepthook`.
    """
    try:
        return main(*args, **kwargs)
    except (LongEmbedError, KeyboardInterrupt) as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if os.environ.get(TRACEBACK_VARIABLE) == "1" or (is_interrupt and sys.argv[1:2] != ["run"]):
            raise
        print(f"mteb-longembed: {INTERRUPTED if is_interrupt else error}", file=sys.stderr)
        sys.exit(130 if is_interrupt else 2)


def run_and_say(run: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    """`mteb run`, which ends with the scores on LongEmbed's tasks, and with the command that shows them in a table."""
    import mteb

    evaluate = mteb.evaluate
    done: list[ModelResult] = []

    def evaluate_and_keep(*args: Any, **kwargs: Any) -> ModelResult:
        done.append(evaluate(*args, **kwargs))
        return done[-1]

    mteb.evaluate = evaluate_and_keep
    try:
        run(args)
    finally:
        mteb.evaluate = evaluate
    scores = [
        f"{result.task_name} {100 * result.get_score():.2f} (splits: {len(result.scores)})"
        for model in done
        for result in model.task_results
        if result.task_name.startswith(PREFIXES)
    ]
    if scores:
        table = shlex.join(["mteb-longembed", "report", args.output_folder])
        print(f"{args.model}: {', '.join(scores)}. Table: {table}", file=sys.stderr)
