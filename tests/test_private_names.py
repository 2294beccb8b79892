"""The private names of other packages that this package uses. Each is listed once, with its owner and the reason."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mteb_longembed

_BASE_MODEL = "sentence_transformers.base.model.BaseModel"

#: name -> its owner, and why we need it; an attribute of instances only has the class or module that sets it
ALLOWED = {
    # mteb
    "_create_dataloaders": (
        "mteb",
        "create_dataloader hands queries to encoders; mteb exports it nowhere else",
    ),
    "_TASKS_REGISTRY": ("mteb.get_tasks", "our tasks are registered in it; mteb has no function for that"),
    "_build_registry": ("mteb.benchmarks.get_benchmark", "our benchmarks are registered by replacing it"),
    "_create_summary_table": (
        "mteb.benchmarks.benchmark.Benchmark",
        "the leaderboard fails on its inner columns",
    ),
    "_create_per_task_table": (
        "mteb.benchmarks.benchmark.Benchmark",
        "the leaderboard fails on scores by length",
    ),
    "_to_results_df": (
        "mteb.results.BenchmarkResults",
        "the table that the leaderboard reads from its cache",
    ),
    # sentence-transformers
    "_get_prompt_length": (
        "sentence_transformers.base.modules.transformer.Transformer",
        "poolings leave prompts out",
    ),
    "_inference": (_BASE_MODEL, "overridden: encode runs batches of our engine, with prompts as usual"),
    "_create_model_card": (_BASE_MODEL, "overridden: saved models get our card"),
    "_get_model_config": (
        _BASE_MODEL,
        "overridden: the saved configuration names the package that loading needs",
    ),
    "_load_with_module_classes": (_BASE_MODEL, "loads a saved model with our classes for its modules"),
    "_model_card_text": (_BASE_MODEL, "a loaded model keeps its card only here"),
    "_resolve_inference_device": (_BASE_MODEL, "the device that encode would choose"),
    # transformers
    "_attn_implementation": (
        "transformers.PretrainedConfig",
        "the attention that a model runs; it has no other name",
    ),
    "_encode_plus": ("transformers.PreTrainedTokenizerFast", "tells whether a class encodes in its own way"),
    "_gradient_checkpointing_func": (
        "transformers.modeling_utils",
        "tells a layer that is run again in backward",
    ),
    "_is_hf_initialized": ("transformers.core_model_loading", "tells weights that the files of a base lack"),
    "_name_or_path": ("transformers.PretrainedConfig", "left out of a model's identity"),
    "_weight_conversions": (
        "transformers.core_model_loading",
        "a base is saved under transformers' own names",
    ),
    # torch
    "_cdata": ("torch.UntypedStorage", "tells whether a weight has been replaced"),
    "_nnz": ("torch.Tensor", "number of stored values of a sparse tensor before it is coalesced"),
    "_scaled_dot_product_flash_attention_for_cpu": (
        "torch.ops.aten",
        "also returns the log-sum-exp of each row",
    ),
    "_version": ("torch.Tensor", "tells whether a weight was changed in place"),
}
#: Strings and names that look private and are not: columns, suffixes, and what Python documents.
NOT_PRIVATE = {"_id", "_at_", "_high", "_low", "_predictions", "_asdict"} | {
    "_abc_impl",
    "_is_protocol",
    "_is_runtime_protocol",
}

_PRIVATE = re.compile(r"_(?!_)\w+")
_ROOT = Path(mteb_longembed.__file__).parent


def _is_private(name: str) -> bool:
    return bool(_PRIVATE.fullmatch(name)) and name not in NOT_PRIVATE


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _defined(tree: ast.AST) -> Iterator[str]:
    """Names that our own code defines: functions, classes, variables, and attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names that are imported from other packages, and the names of their modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if not module.startswith("mteb_longembed"):
                yield from (*module.split("."), *(alias.name for alias in node.names))


def _named(tree: ast.AST) -> Iterator[str]:
    """Names that are read as attributes, or written as strings, such as for `getattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _overridden() -> Iterator[str]:
    """Private names of our classes that a base class of another package has too."""
    for found in pkgutil.walk_packages(mteb_longembed.__path__, "mteb_longembed."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == found.name:
                others = [base for base in value.__mro__ if not base.__module__.startswith("mteb_longembed")]
                yield from (name for name in vars(value) for base in others if name in vars(base))


def _used() -> set[str]:
    """All of these, without attributes whose names our own code defines too, unless they override."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in _ROOT.rglob("*.py")]
    ours = {name for tree in trees for name in _defined(tree)}
    named = {name for tree in trees for name in _named(tree)}
    imported = {name for tree in trees for name in _imported(tree)}
    return {name for name in imported | (named - ours) | set(_overridden()) if _is_private(name)}


def _resolve(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        owner, _, name = path.rpartition(".")
        return getattr(_resolve(owner), name)


def test_private_names_of_other_packages_are_listed_and_listed_ones_are_used() -> None:
    assert _used() == set(ALLOWED)


@pytest.mark.parametrize("name", ALLOWED)
def test_listed_names_exist_in_the_installed_versions(name) -> None:
    path, reason = ALLOWED[name]
    owner = _resolve(path)
    assert reason
    is_there = hasattr(owner, name) or re.search(rf"\b{name}\b", inspect.getsource(owner))
    assert is_there or importlib.import_module(f"{path}.{name}")
