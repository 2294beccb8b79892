"""The hook against a stand-in for mteb, each claim in an interpreter of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import CAPTURED

ROOT = Path(__file__).parents[1]
#: Records what the plugin is told in place of registering anything.
RECORD = """
import sys, types
told = []
sys.modules["mteb_longembed.plugin"] = types.SimpleNamespace(register=lambda: told.append("mteb"))
"""


@pytest.fixture
def stand_in(tmp_path) -> Path:
    """A folder with a package `mteb` of mteb's shape."""
    files = {
        "mteb/__init__.py": "import time; time.sleep(0.05); from mteb.models import model_implementations",
        "mteb/models/__init__.py": "",
        "mteb/models/model_implementations/__init__.py": "MODEL_REGISTRY = {}",
    }
    for name, text in files.items():
        file = tmp_path / "stand-in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "stand-in"


def python(code: str, *paths: Path, options: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess:
    search = os.pathsep.join(map(str, paths))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MTEB_LONGEMBED"))}
    # -S: neither this environment's own mteb nor its own .pth of this package
    env = {**kept, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run([sys.executable, "-S", *options, "-c", code], env=env, **CAPTURED)


def imports_seen(code: str, *paths: Path, **env: str) -> list[str]:
    done = python(f"{RECORD}\n{code}\nprint(*told, sep='\\n')", *paths, **env)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


WHOLE = "mteb"
THREADS = """
import mteb_longembed, threading
threads = [threading.Thread(target=__import__, args=("mteb",)) for _ in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
"""
LOADER = """
import mteb_longembed, mteb, inspect, importlib.machinery
assert type(mteb.__loader__) is importlib.machinery.SourceFileLoader
assert "model_implementations" in inspect.getsource(mteb)
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import mteb_longembed, mteb", [WHOLE]),
        ("import mteb_longembed, mteb.models.model_implementations", [WHOLE]),
        ("import mteb, mteb_longembed", [WHOLE]),
        ("import mteb_longembed; mteb_longembed.autoload.install(); import mteb", [WHOLE]),
        ("import mteb_longembed, mteb, importlib; importlib.reload(mteb)", [WHOLE, WHOLE]),
        pytest.param(THREADS, [WHOLE], id="many threads at once"),
        pytest.param(LOADER, [WHOLE], id="mteb keeps its own loader"),
    ],
)
def test_mteb_is_told_once_each_time_a_module_has_run(stand_in, code, expected) -> None:
    assert imports_seen(code, ROOT, stand_in) == expected


def test_mteb_is_told_only_when_it_is_whole_where_threads_import_both_at_once(stand_in) -> None:
    code = """
import threading
def whole():
    assert "mteb.models.model_implementations" in sys.modules, "told too early"
    told.append("mteb")
sys.modules["mteb_longembed.plugin"].register = whole
names = ["mteb", "mteb_longembed"] * 8
threads = [threading.Thread(target=__import__, args=(name,)) for name in names]
[t.start() for t in threads]; [t.join() for t in threads]
"""
    for _ in range(3):
        assert set(imports_seen(code, ROOT, stand_in)) == {WHOLE}


def test_nothing_happens_without_mteb() -> None:
    assert imports_seen("import mteb_longembed", ROOT) == []
    done = python("import mteb_longembed\nimport mteb", ROOT)
    assert done.stderr.strip().endswith("ModuleNotFoundError: No module named 'mteb'")


FAILS = """
import sys, types
def fail(): raise RuntimeError("registry moved")
sys.modules["mteb_longembed.plugin"] = types.SimpleNamespace(register=fail)
"""
MISSING = "import sys; sys.modules['mteb_longembed.plugin'] = None\n"


@pytest.mark.parametrize(("setup", "reason"), [(FAILS, " (RuntimeError: registry moved)"), (MISSING, "")])
@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_a_plugin_that_fails_or_is_missing_is_a_warning_and_mteb_works(stand_in, setup, reason, options):
    done = python(f"{setup}import mteb_longembed, mteb; print('fine')", ROOT, stand_in, options=options)
    assert done.stdout == "fine\n", done.stderr
    assert f"mteb-longembed could not register with mteb{reason}" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_the_package_imports_nothing_else() -> None:
    code = """
import sys, os
before = set(sys.modules)
import mteb_longembed
print(*sorted(set(sys.modules) - before))
"""
    assert python(code, ROOT).stdout.split() == ["mteb_longembed", "mteb_longembed.autoload"]


def test_the_pth_file_is_one_line_that_imports_us_unless_the_environment_says_no(tmp_path) -> None:
    line = (ROOT / "mteb_longembed.pth").read_text()
    assert line.count("\n") == 1
    (tmp_path / "mteb_longembed.pth").write_text(line)
    code = f"""
import site, sys
site.addsitedir({str(tmp_path)!r})  # as Python does at its start
print("mteb_longembed" in sys.modules)
"""
    by_hand = "import mteb_longembed; print(type(sys.meta_path[0]).__name__)"
    assert python(code, ROOT).stdout == "True\n"
    assert python(code + by_hand, ROOT, MTEB_LONGEMBED_AUTOLOAD="0").stdout == "False\nWatcher\n"
    left_behind = python(code, options=("-P",))
    assert (left_behind.returncode, left_behind.stdout) == (0, "False\n")


def test_the_start_file_names_our_entry_point() -> None:
    code = """
import pkgutil, sys
start = pkgutil.resolve_name(open("mteb_longembed.start").read().strip())
start()
print(type(sys.meta_path[0]).__name__, "mteb_longembed" in sys.modules)
import mteb_longembed
print(type(sys.meta_path[0]).__name__)
"""
    code = f"import os; os.chdir({str(ROOT)!r}){code}"
    assert python(code, ROOT).stdout.split() == ["Watcher", "True", "Watcher"]
    off = python(code, ROOT, MTEB_LONGEMBED_AUTOLOAD="0").stdout.split()
    assert off[1:] == ["False", "Watcher"] and off[0] != "Watcher"
