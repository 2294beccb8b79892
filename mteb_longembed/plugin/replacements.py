"""What replaces functions of mteb: for models of ours, for our errors, and for the last line of a run."""

from __future__ import annotations

import functools
import importlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import INTERRUPTED, LongEmbedError
from mteb_longembed.names import is_extended_name
from mteb_longembed.reports.results import PREFIXES

from .mteb_parts import part

if TYPE_CHECKING:
    import argparse

    from mteb.models.model_meta import ModelMeta
    from mteb.results import ModelResult
    from sentence_transformers import SentenceTransformer

#: The ending of the revisions of extended models, also of models with their own repository.
_OURS = re.compile(r".*-le[0-9]+(\.[0-9a-f]{8})?")
#: `1` also shows the traceback of our errors.
TRACEBACK_VARIABLE = "MTEB_LONGEMBED_TRACEBACK"


def ask_hub(
    find: Callable[..., ModelMeta],
    model_name: str,
    revision: str | None = None,
    fetch_from_hf: bool | None = None,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`mteb.get_model_meta`, which also knows our models in their own repositories, at any revision.

    mteb itself looks up bases with `fetch_from_hf=False`. Then no request goes to the hub.
    """
    if fetch_from_hf is not False:
        ours = part("mteb.models.model_implementations", "MODEL_REGISTRY").ask_hub(model_name, revision)
        if ours is not None:
            revision = ours.revision
    return find(model_name, revision, bool(fetch_from_hf), *args, **kwargs)


def describe_loaded(
    described: Callable[..., ModelMeta],
    cls: type[ModelMeta],
    model: SentenceTransformer,
    *args: object,
    **kwargs: object,
) -> ModelMeta:
    """`ModelMeta.from_sentence_transformer_model`, with which an evaluation of a model in memory begins.

    A model of ours is described as its name is. One that was changed after it was loaded is `local/NAME`, with its
    digest as revision.
    """
    if len(args) < 2:
        # mteb 2.26 warns about its own default for this parameter in every call; None stands for "not given"
        kwargs = {"fill_missing": None, **kwargs}
    meta = described(cls, model, *args, **kwargs)
    # before this module is imported, no model can be one of ours
    if "mteb_longembed.encoders.model" not in sys.modules:
        return meta
    from mteb_longembed.encoders.model import LongModelMixin

    if not isinstance(model, LongModelMixin):
        return meta
    from .metadata import model_meta

    if model.checkpoint is not None:
        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        of_name = model_meta(model.checkpoint, functools.partial(dict.get, registry))
        own = {key: getattr(meta, key) for key in ("embed_dim", "max_tokens", "loader")}
        meta = of_name.model_copy(update=own)
    now = model.identity()
    fields = {
        "name": now.name,
        "revision": now.revision,
        "adapted_from": now.changed_from or meta.adapted_from,
    }
    return meta.model_copy(update=fields)


def list_ours(summarise: Callable[[Any], Any], results: Any) -> Any:
    """`BenchmarkResults.get_benchmark_result`, whose table then has a row for each model of ours.

    mteb shows only results of models in its registry, which it reads once in a process. That registry cannot list
    extended models, because their entries are made when they are looked up. So they enter it for this table only.
    """
    ours = enter_models(
        result
        for result in results.model_results
        if is_extended_name(result.model_name) or _OURS.fullmatch(str(result.model_revision))
    )
    try:
        return summarise(results)
    finally:
        registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
        for name in ours:
            del registry[name]
        _forget_models()


def enter_models(results: Iterable[ModelResult]) -> list[str]:
    """Enter the models of these results into mteb's registry, and return the names that are new there."""
    registry = part("mteb.models.model_implementations", "MODEL_REGISTRY")
    known = {result.model_name: result.model_meta or registry.get(result.model_name) for result in results}
    new = {name: meta for name, meta in known.items() if meta and not dict.__contains__(registry, name)}
    for name, meta in new.items():
        if meta.training_datasets is not None:  # a list if it comes from a file
            new[name] = meta.model_copy(update={"training_datasets": set(meta.training_datasets)})
    registry.update(new)
    _forget_models()
    return list(new)


def _forget_models() -> None:
    """Make mteb read its registry again for its next table."""
    importlib.import_module("mteb.benchmarks._create_table")
    for cached in ("_static_model_meta", "_meta_df_no_zs", "_meta_df_with_zs"):
        part("mteb.benchmarks._create_table", cached).cache_clear()


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
        print(f"{done[0].model_name}: {', '.join(scores)}. Table: {table}", file=sys.stderr)
