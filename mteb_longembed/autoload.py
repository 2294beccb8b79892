"""Register our tasks, benchmarks and models with mteb as soon as mteb is imported.

This module does not import mteb itself. `mteb_longembed.pth` (from Python 3.15 on `mteb_longembed.start`) imports
this module at the interpreter's start. So it must take at most about a millisecond, and use only modules that Python
has loaded by then. `MTEB_LONGEMBED_AUTOLOAD=0` in the environment switches it off; `import mteb_longembed` switches it
on by hand.

Nothing here may break the interpreter's start or `import mteb`: every error becomes a warning.
"""

import os
import sys


class Watcher:
    """A finder that finds no modules itself, but calls the plugin as soon as mteb has been imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Return mteb's spec from another finder, with a loader that calls the plugin; None for other modules."""
        if name != "mteb":
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _tell_after(spec)
                return spec
        return None


def install() -> None:
    """Watch for mteb. If mteb is imported already, register at once. A second call does nothing."""
    if any(isinstance(finder, Watcher) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Watcher())
    if "mteb" in sys.modules:
        _tell(wait=True)


def start() -> None:
    """Run as the entry point of `mteb_longembed.start`. By then the package has been imported and watches."""
    if os.environ.get("MTEB_LONGEMBED_AUTOLOAD") == "0":
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Watcher)]
        # Python forgets the package here, so that `import mteb_longembed` still switches it on by hand
        for name in [name for name in sys.modules if name.partition(".")[0] == "mteb_longembed"]:
            del sys.modules[name]


def _tell_after(spec) -> None:  # type: ignore[no-untyped-def]
    # The loader instance is changed and not wrapped: importlib.resources, inspect and pickle still see the loader that
    # they know.
    try:
        run = spec.loader.exec_module

        def exec_module(module) -> None:  # type: ignore[no-untyped-def]
            run(module)
            _tell()

        spec.loader.exec_module = exec_module
    except AttributeError as error:  # also for a spec without a loader, such as a namespace package's
        _warn(error)


def _tell(wait: bool = False) -> None:
    try:
        if wait:
            __import__("mteb")  # another thread may be importing it now: this waits for that thread
        from . import plugin

        plugin.register()
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    message = f"mteb-longembed could not register with mteb ({type(error).__name__}: {error})"
    try:
        import warnings

        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except Exception:  # the user may have turned warnings into errors: they must not break `import mteb`
        print(f"warning: {message}", file=sys.stderr)
