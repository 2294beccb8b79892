"""Has mteb learn our tasks, benchmark and models as soon as it is imported, without importing it.

`mteb_longembed.pth` (from Python 3.15 on `mteb_longembed.start`) imports this at the interpreter's start, so
it takes about a millisecond at most and uses nothing but what Python has loaded by then.
`MTEB_LONGEMBED_AUTOLOAD=0` in the environment switches that off; `import mteb_longembed` does it by hand.

Nothing here may break the interpreter's start or `import mteb`: what goes wrong becomes a warning.
"""

import os
import sys

#: Modules of mteb after which `plugin.after_import` is called, in the order in which mteb runs them.
WATCHED = (
    "mteb.models.model_implementations",
    "mteb",
    "mteb.benchmarks.benchmarks",
    "mteb.benchmarks._leaderboard_menu",
    "mteb.leaderboard",
    "mteb.cli",
)


class Watcher:
    """A finder that finds nothing itself: it has the plugin called once a watched module has run."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """The other finders' spec of a watched module, whose loader tells us when it is done; else None."""
        if name not in WATCHED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _tell_after(spec)
                return spec
        return None


def install() -> None:
    """Watch for mteb, or tell it at once where it is imported already. Harmless when called again."""
    if any(isinstance(finder, Watcher) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Watcher())
    for name in WATCHED:
        if name in sys.modules:
            _tell(name, wait=True)


def remove() -> None:
    """Stop watching; what mteb has learnt, it keeps."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Watcher)]


def start() -> None:
    """The entry point of `mteb_longembed.start`, by which time the package has been imported and watches."""
    if os.environ.get("MTEB_LONGEMBED_AUTOLOAD") == "0":
        remove()
        # forgotten, so that `import mteb_longembed` still is the way to switch it on by hand
        for name in [name for name in sys.modules if name.partition(".")[0] == "mteb_longembed"]:
            del sys.modules[name]


def _tell_after(spec) -> None:  # type: ignore[no-untyped-def]
    # On the instance rather than in a wrapper: the loader stays the one that importlib.resources, inspect and
    # pickle know.
    run = spec.loader.exec_module

    def exec_module(module) -> None:  # type: ignore[no-untyped-def]
        run(module)
        _tell(spec.name)

    try:
        spec.loader.exec_module = exec_module
    except AttributeError as error:
        _warn(error)


def _tell(name: str, wait: bool = False) -> None:
    try:
        if wait:
            __import__(name)  # returns when a thread that is importing it just now is done
        from . import plugin

        plugin.after_import(name)
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    message = f"mteb-longembed could not register with mteb ({type(error).__name__}: {error})"
    try:
        import warnings

        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except Exception:  # warnings turned into errors must not break `import mteb` either
        print(f"warning: {message}", file=sys.stderr)
