"""Our tasks, benchmarks and extended models in mteb's registries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from mteb_longembed.errors import HubError, LongEmbedError, ModelError
from mteb_longembed.files import holds_model
from mteb_longembed.names.grammar import is_bm25_name, is_extended_name
from mteb_longembed.names.zoo import ZOO

from .mteb_parts import part, rebind

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

    from mteb_longembed.encoders.checkpoints.spec import ModelSpec
    from mteb_longembed.retrieval.settings import SearchSettings

T = TypeVar("T")


def register_tasks(mteb: ModuleType) -> None:
    """Add our tasks to those that `mteb.get_task` and `mteb.get_tasks` find. mteb's own tasks stay."""
    # not imported from .tasks, which may itself be importing mteb at this moment
    from mteb_longembed.tasks.generated.variants import TaskRegistry
    from mteb_longembed.tasks.registry import TASKS

    registry = part("mteb.get_tasks", "_TASKS_REGISTRY")
    listed = part("mteb.get_tasks", "TASK_LIST")
    if isinstance(registry, TaskRegistry):
        return
    ours = {task.metadata.name: task for task in TASKS if task.metadata.name not in registry}
    rebind("_TASKS_REGISTRY", registry, TaskRegistry(registry | ours))
    rebind("TASK_LIST", listed, (*listed, *ours.values()))


def register_benchmark(benchmarks: ModuleType) -> None:
    """Add our benchmark as an attribute of mteb's module, because `mteb.get_benchmark` looks there."""
    from mteb_longembed.tasks.benchmark import make_benchmark

    benchmarks.LONGEMBED_PLUS = make_benchmark()  # type: ignore[attr-defined]
    for cache in ("_build_registry", "_build_aliases_registry"):
        part("mteb.benchmarks.get_benchmark", cache).cache_clear()


def register_models(implementations: ModuleType) -> None:
    """Replace mteb's registry by one that knows extended models, in all modules that have imported it already."""
    # mteb calls a method of sentence-transformers by its old name, once for each model that it describes
    warnings.filterwarnings(
        "ignore", "The `get_sentence_embedding_dimension` method", FutureWarning, r"mteb\.models\."
    )
    known = part(implementations.__name__, "MODEL_REGISTRY")
    if not isinstance(known, ModelRegistry):
        rebind("MODEL_REGISTRY", known, ModelRegistry(known))


class ModelRegistry(dict[str, "ModelMeta"]):
    """mteb's registry of models. It also knows aliases and the names of extended models.

    Iteration gives only mteb's own entries, because there is no limit to the number of extended models. The entry of
    an extended model is made when its name is looked up. It is kept under that name and under the canonical name,
    unless its base is a folder, whose files may change.
    """

    def __init__(self, known: Mapping[str, ModelMeta]) -> None:
        super().__init__(known)
        self._made: dict[str, ModelMeta] = {}
        #: The answers of the hub for plain names, by name and revision. None for a repository that is not ours.
        self._asked: dict[tuple[str, str | None], ModelMeta | None] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (super().__contains__(name) or name in self._made or _is_ours(name))

    def __missing__(self, name: str) -> ModelMeta:
        if name in self._made:
            return self._made[name]
        if not isinstance(name, str) or not _is_ours(name):
            raise KeyError(name)
        if name in ZOO and ZOO[name].kind == "mteb":
            return self[ZOO[name].hub_id]
        if is_bm25_name(name):
            from mteb_longembed.retrieval.bm25_settings import BM25Settings
            from mteb_longembed.retrieval.make import meta_of_bm25

            return meta_of_bm25(BM25Settings.parse(name))
        from mteb_longembed.retrieval.settings import read_name

        made = self._make(*read_name(name))
        if not str(made.name).startswith("local/"):  # the files of a folder may change
            self._made[name] = self._made[str(made.name)] = made
        return made

    def ask_hub(self, name: str, revision: str | None = None) -> ModelMeta | None:
        """The description of an extended model that has its own repository. None for any other name.

        Such a name looks like any other name, so one file is fetched from the hub. Each process does this once for a
        name and revision. It is not done for names that mteb knows, for folders and for names with a `+`. A model
        that is found becomes an entry of this registry. A commit followed by our suffix is a revision too.
        """
        if not isinstance(name, str) or super().__contains__(name) or _is_ours(name):
            return None
        if (name, revision) not in self._asked:
            self._asked[name, revision] = self._find_on_hub(name, revision)
        if (made := self._asked[name, revision]) is not None:
            self._made[name] = made
        return made

    def _find_on_hub(self, name: str, revision: str | None) -> ModelMeta | None:
        from mteb_longembed.encoders.checkpoints.model_files import Files, has_our_modules
        from mteb_longembed.encoders.checkpoints.spec import ModelSpec
        from mteb_longembed.encoders.positions.strategies import ALGORITHM
        from mteb_longembed.retrieval.settings import SearchSettings

        revision = revision and re.sub(rf"-{ALGORITHM}(\.[0-9a-f]+)?$", "", revision)
        if name.count("/") != 1 or name.startswith((".", "/", "~")) or Path(name).is_dir():
            return None
        try:
            if not has_our_modules(Files(name, revision).read_modules()):
                return None
        except (HubError, ModelError):  # mteb reports it in its own way
            return None
        return self._make(ModelSpec(name, revision=revision), SearchSettings())

    def get(self, name: str, default: T | None = None) -> ModelMeta | T | None:  # type: ignore[override]
        """Look up a name as `dict.get` does. If the base of an extended model cannot be read, warn and use the default.

        mteb calls this when it only shows results, and that must not need the hub.
        """
        try:
            return self[name]
        except KeyError:
            return default
        except LongEmbedError as error:
            warnings.warn(f"nothing is known about {name}: {error}", stacklevel=2)
            return default

    def _make(self, spec: ModelSpec, settings: SearchSettings) -> ModelMeta:
        entry = ZOO.get(spec.base)
        base = super().get(entry.hub_id if entry else spec.base)
        if base is not None and "API" in base.framework:
            from mteb_longembed.plugin.api_models import windowed

            return windowed(base, spec, settings.given)
        from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint

        from .metadata import model_meta

        checkpoint = open_checkpoint(spec)
        settings.check_fits(checkpoint)
        return model_meta(checkpoint, super().get, settings)


def _is_ours(name: str) -> bool:
    # cheap tests come first: mteb looks up hundreds of names, and only ours need the import of torch
    return name in ZOO or is_extended_name(name) or holds_model(name)
