"""Between rooms stand types: no signature that another room uses takes or returns `Any`."""

import ast
import importlib.util
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import mteb_longembed

ROOT = Path(mteb_longembed.__file__).parent
MODULES = {
    ".".join([ROOT.name, *path.with_suffix("").relative_to(ROOT).parts]).removesuffix(".__init__"): (
        path.parent.relative_to(ROOT).parts, ast.parse(path.read_text(encoding="utf-8"))
    )
    for path in ROOT.rglob("*.py")
}  # fmt: skip


def _room(folder):
    """A folder of the package with all that is in it; inside `encoders` each folder is a room of its own."""
    return folder[: 2 if folder[:1] == ("encoders",) else 1]


def _imported_by_another_room():
    """Our functions and classes that a module imports from another room."""
    for folder, tree in MODULES.values():
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)):
            package = ".".join([ROOT.name, *folder])
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for name in node.names if source in MODULES else ():
                value = getattr(importlib.import_module(source), name.name, None)
                module = getattr(value, "__module__", None)
                if callable(value) and module in MODULES and _room(MODULES[module][0]) != _room(folder):
                    yield value


def _signatures(value):
    """What others may give to a function or a class, or get from it. A library's methods have the library's types."""
    if not inspect.isclass(value):
        return {value.__qualname__: inspect.signature(value)}
    foreign = [base for base in value.__mro__[1:-1] if not base.__module__.startswith(ROOT.name)]
    parts = {**inspect.get_annotations(value)}
    for name, part in vars(value).items():
        method = getattr(part, "fget", None) or inspect.unwrap(getattr(part, "__func__", part))
        is_generated = name == "__init__" and is_dataclass(value)
        if (
            inspect.isfunction(method)
            and not is_generated
            and not any(name in vars(base) for base in foreign)
        ):
            parts[name] = inspect.signature(method)
    hidden = {name for name in parts if name.startswith("_") and name != "__init__"}
    return {f"{value.__qualname__}.{name}": parts[name] for name in parts.keys() - hidden}


def _types_with_any():
    """`Any`, and our names for types that contain it. `Features` is what sentence-transformers' modules exchange."""
    nodes = (node for _, tree in MODULES.values() for node in tree.body if isinstance(node, ast.Assign))
    assigned = {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in nodes}
    del assigned["Features"]
    names, known = {"Any"}, set()
    while names != known:
        known = set(names)
        names |= {name for name, value in assigned.items() if _has(names, value)}
    return names


def _has(names, annotation):
    return any(re.search(rf"\b{re.escape(name)}\b", str(annotation)) for name in names)


def test_no_signature_that_another_room_uses_has_any():
    names, values = _types_with_any(), set(_imported_by_another_room())
    signatures = {name: kind for value in values for name, kind in _signatures(value).items()}
    assert len(signatures) > 500  # they were all looked at
    assert not {name: str(kind) for name, kind in signatures.items() if _has(names, kind)}
