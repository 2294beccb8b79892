"""The one module that touches mteb's registries: our tasks, benchmark and extended models become mteb's own.

mteb has no way to announce plugins, so this relies on names inside it; `_part` explains in one sentence when
one has moved.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import __version__
from .autoload import WATCHED
from .encoders.zoo import ZOO
from .errors import InputError, LongEmbedError

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta
    from mteb.models.models_protocols import MTEBModels

    from .encoders.names import ModelName


def after_import(name: str) -> None:
    """Register what belongs to a module of mteb that has just been imported (`autoload.WATCHED`)."""
    for register in _AFTER[name]:
        register(sys.modules[name])


def register_tasks(mteb: ModuleType) -> None:
    """Add our tasks to what `mteb.get_task` and `mteb.get_tasks` find; mteb's own stay."""
    # not from .tasks, which may itself be importing mteb just now
    from .tasks.catalogue import TASKS
    from .tasks.variants import TaskRegistry

    registry, listed = _part("mteb.get_tasks", "_TASKS_REGISTRY"), _part("mteb.get_tasks", "TASK_LIST")
    new = tuple(task for task in TASKS if task.metadata.name not in registry)
    ours = {task.metadata.name: task for task in new}
    if isinstance(registry, TaskRegistry):
        registry.update(ours)
    else:
        _rebind("_TASKS_REGISTRY", registry, TaskRegistry(registry | ours))
    _rebind("TASK_LIST", listed, (*listed, *new))
    for name in WATCHED:
        if importlib.util.find_spec(name) is None:
            raise _moved(name)


def register_writers(mteb: ModuleType) -> None:
    """Have mteb rename its result and prediction files into place, so that a kill never leaves half a file."""
    from .results_on_disk import saving_predictions, saving_results

    for owner, name, saving in (
        ("ResultCache", "save_to_cache", saving_results),
        ("AbsTask", "_save_task_predictions", saving_predictions),
    ):
        writer = _part(mteb.__name__, owner)
        if not hasattr(writer, name):
            raise _moved(f"mteb.{owner}.{name}")
        save = getattr(writer, name)
        if not hasattr(save, "__wrapped__"):  # registering again changes nothing
            setattr(writer, name, saving(save))


def register_benchmark(benchmarks: ModuleType) -> None:
    """Add our benchmarks to what `mteb.get_benchmark` finds, which are this module's attributes."""
    from .tasks.benchmark import make_benchmark
    from .tasks.wider import make_wider_benchmark

    benchmarks.LONGEMBED_PLUS = make_benchmark()  # type: ignore[attr-defined]
    benchmarks.LONGEMBED_PLUS_PLUS = make_wider_benchmark()  # type: ignore[attr-defined]
    for cache in ("_build_registry", "_build_aliases_registry"):
        _part("mteb.benchmarks.get_benchmark", cache).cache_clear()


def register_in_menu(menu: ModuleType) -> None:
    """Put our benchmark into the leaderboard's menu, behind mteb's own `LongEmbed`."""
    from .leaderboard import add_to_menu

    ours = _part("mteb.benchmarks.benchmarks", "LONGEMBED_PLUS")
    if not add_to_menu(_part(menu.__name__, "R_BENCHMARK_ENTRIES"), "LongEmbed", ours):
        raise _moved(f"LongEmbed in {menu.__name__}.R_BENCHMARK_ENTRIES")


def register_shown_models(board: ModuleType) -> None:
    """Have the leaderboard enter the extended models of its results into mteb's registry when it starts."""
    from .leaderboard import learn_models, learning_first

    def learn(cache: Path) -> None:
        registry = _part("mteb.models.model_implementations", "MODEL_REGISTRY")
        learn_models(cache, registry, load_encoder)

    make_app = _part(board.__name__, "get_leaderboard_app")
    _rebind("get_leaderboard_app", make_app, learning_first(make_app, learn))


def register_models(implementations: ModuleType) -> None:
    """Put a registry that knows extended models in the place of mteb's, wherever that is bound already."""
    known = _part(implementations.__name__, "MODEL_REGISTRY")
    if not isinstance(known, ModelRegistry):
        _rebind("MODEL_REGISTRY", known, ModelRegistry(known))


_AFTER: dict[str, tuple[Callable[[ModuleType], None], ...]] = {
    "mteb.models.model_implementations": (register_models,),
    "mteb": (register_tasks, register_writers),
    "mteb.benchmarks.benchmarks": (register_benchmark,),
    "mteb.benchmarks._leaderboard_menu": (register_in_menu,),
    "mteb.leaderboard": (register_shown_models,),
}


class ModelRegistry(dict[str, "ModelMeta"]):
    """mteb's registry of models, which also answers to aliases and to the names of extended models.

    Iteration gives mteb's own entries: extended models are without number, and made when they are asked for.
    """

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and _is_ours(name))

    def __missing__(self, name: str) -> ModelMeta:
        if not isinstance(name, str) or not _is_ours(name):
            raise KeyError(name)
        entry = ZOO.get(name)
        if entry is not None and entry.kind == "mteb":
            return self[entry.hub_id]
        # what is read of the hub is remembered, for commits do not change; folders do
        if Path(name).is_dir():
            return _saved_meta(Path(name))
        if name in self._made:
            return self._made[name]
        meta = self._make(name)
        if not str(meta.adapted_from).startswith("local/"):
            self._made[name] = meta
        return meta

    def get(self, name: str, default: Any = None) -> Any:
        """As `dict.get`; for an extended model whose base cannot be had now, the default and a warning.

        mteb asks this way where it only shows results, which must not need the hub.
        """
        try:
            return self[name]
        except KeyError:
            return default
        except LongEmbedError as error:
            import warnings

            warnings.warn(f"nothing is known of {name}: {error}", stacklevel=2)
            return default

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._made: dict[str, ModelMeta] = {}

    def _make(self, text: str) -> ModelMeta:
        from .encoders.names import parse_name

        name = parse_name(text)
        entry = ZOO.get(name.base)
        base = super().get(entry.hub_id if entry else name.base)
        if base is not None and "API" in base.framework:
            from .encoders.black_box import windowed

            return windowed(base, name)
        return _extended_meta(text, name, super().get)


def _is_ours(name: str) -> bool:
    # cheap tests first: mteb asks for hundreds of names, and only ours are worth importing torch
    if name in ZOO:
        return True
    if "+" in name:
        from .encoders.names import is_extended_name

        if is_extended_name(name):
            return True
    if Path(name, "modules.json").is_file():
        from .encoders.extend import is_saved_extended

        return is_saved_extended(name)
    return False


def _extended_meta(text: str, name: ModelName, find: Callable[[str], ModelMeta | None]) -> ModelMeta:
    """What mteb must know of `BASE+STRATEGY`, read from small files only; a misfit is told here."""
    from .encoders import ALGORITHM
    from .encoders.bases import describe
    from .encoders.extend import build_strategy
    from .encoders.names import canonical_name
    from .encoders.strategies import get_strategy

    info = describe(
        name.base,
        revision=name.revision,
        trained_len=name.trained_len,
        trust_remote_code=name.trust_remote_code,
    )
    info.family.check_fit(get_strategy(name.strategy), info.name)
    strategy = build_strategy(info, name.strategy, name.target_len, name.params)
    base = find(info.name) or _unknown_to_mteb(info.name, info.config)
    prompts = info.entry is not None and bool(info.entry.query_prompt or info.entry.document_prompt)
    return base.model_copy(
        update={
            **_OF_ANY_MODEL,
            "name": canonical_name(
                info.name, info.trained_len, replace(name, target_len=strategy.target_len)
            ),
            "revision": f"{info.revision}-{ALGORITHM}",
            "loader": functools.partial(load_encoder, text),
            "max_tokens": strategy.target_len,
            "adapted_from": info.name,
            "use_instructions": base.use_instructions or prompts,
        }
    )


def _saved_meta(folder: Path) -> ModelMeta:
    """What mteb must know of a folder that `save_pretrained` wrote."""
    from .encoders.extend import saved_identity

    saved = saved_identity(folder)
    return _unknown_to_mteb(saved.base, None).model_copy(
        update={
            **_OF_ANY_MODEL,
            "name": saved.name,
            "revision": saved.revision,
            "loader": functools.partial(load_encoder, str(folder)),
            "max_tokens": saved.strategy.target_len,
            "adapted_from": saved.base,
        }
    )


#: Fields of a base's ModelMeta that do not hold for the model made of it.
_OF_ANY_MODEL: dict[str, Any] = {
    "loader_kwargs": {},
    "experiment_kwargs": None,
    "superseded_by": None,
    # packages that the base's own loader needs; ours is another
    "extra_requirements_groups": None,
    "framework": ["Sentence Transformers", "PyTorch"],
    "modalities": ["text"],
    "model_type": ["dense"],
    "output_dtypes": None,
}


def _unknown_to_mteb(name: str, config: Any) -> ModelMeta:
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    return ModelMeta.create_empty(
        {
            "name": name,
            "similarity_fn_name": ScoringFunction.COSINE,
            "embed_dim": getattr(config, "hidden_size", None),
        }
    )


def load_encoder(
    text: str,
    name: str,
    revision: str | None = None,
    device: str | int | None = None,
    embed_dim: int | None = None,
    trust_remote_code: bool = False,
    **unknown: Any,
) -> MTEBModels:
    """The loader that our `ModelMeta`s carry: an encoder of mteb's around `mteb_longembed.load`.

    Args:
        text: the name as it was typed, or a folder.
        name: `ModelMeta.name`.
        revision: `ModelMeta.revision`.
        device: as in `SentenceTransformer`; `mteb run --device` gives the number of an accelerator.
        embed_dim: cut embeddings to this many dimensions.
        trust_remote_code: run the base repository's own model code.

    Raises:
        InputError: if `device` is a number and there is no such accelerator, on an unknown option, or if the
            base has changed since its description was read.
    """
    from .encoders.encoder import LongEncoder
    from .encoders.extend import load

    if unknown:
        raise InputError(
            "an extended model takes device, embed_dim and trust_remote_code, got "
            f"{', '.join(sorted(unknown))}; a strategy's parameters belong into the name, after a colon."
        )
    model = load(text, device=_device(device), trust_remote_code=trust_remote_code)
    card = model.model_card_data
    if (card.model_name, card.base_model_revision) != (name, revision):
        raise InputError(
            f"{text} must still be {name} at revision {revision}, got {card.model_name} at revision "
            f"{card.base_model_revision}: the base has changed meanwhile, so start again."
        )
    if embed_dim is not None:
        model.truncate_dim = embed_dim
    return LongEncoder(model)


def _device(device: str | int | None) -> str | None:
    if not isinstance(device, int):
        return device
    import torch

    kind = torch.accelerator.current_accelerator()
    count = torch.accelerator.device_count()
    if kind is None or device >= count:
        raise InputError(
            f"--device counts accelerators from 0, of which this machine has {count}, got {device}; leave it "
            "out to run on the best device there is."
        )
    return f"{kind.type}:{device}"


def _rebind(name: str, old: object, new: object) -> None:
    """Give a global another value in every module that holds the old one (it was imported by name)."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def _part(module: str, name: str) -> Any:
    """Something inside mteb that we rely on; a module is looked up where `mteb.get_tasks` is no function."""
    try:
        return getattr(sys.modules[module], name)
    except (AttributeError, KeyError):
        raise _moved(f"{module}.{name}") from None


def _moved(name: str) -> LongEmbedError:
    return LongEmbedError(
        f"mteb {metadata.version('mteb')} has no {name}, where mteb-longembed {__version__} registers: "
        "install another version of one of the two."
    )
