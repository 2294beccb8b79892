"""`mteb-longembed doctor`: what this machine has, and what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

Section = dict[str, Any]

_PACKAGES = (
    "mteb-longembed",
    "mteb",
    "sentence-transformers",
    "transformers",
    "torch",
    "huggingface-hub",
    "datasets",
    "faiss-cpu",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = (
        "Show versions, whether mteb finds this package, whether the hub answers, the devices and their attention "
        "kernels, the caches, and the store of embeddings. The exit status is 1 if there is a problem, otherwise 0."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Print what was found; return the exit status, 1 if there is a problem."""
    sections: dict[str, Section] = {
        "versions": versions(),
        "autoload": autoload_state(),
        "hub": hub_state(),
        "devices": devices(),
        "caches": caches(),
        "store": store_state(),
    }
    problems = [str(section.pop("problem")) for section in sections.values() if "problem" in section]
    if args.json:
        print(json.dumps({**sections, "problems": problems}, indent=2))
        return 1 if problems else 0
    for title, section in sections.items():
        print(title)
        width = max(map(len, section), default=0)
        for name, value in section.items():
            print(f"  {name:<{width}}  {_shown(name, value)}")
        print()
    print("\n".join(f"problem: {problem}" for problem in problems) or "no problem found")
    return 1 if problems else 0


def versions() -> Section:
    """Versions of Python and of the packages that change results; None for a package that is not installed."""
    found: Section = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    missing = [name for name, version in found.items() if version is None]
    if missing:
        found["problem"] = f"not installed: {', '.join(missing)}; pip install mteb-longembed installs them."
    return found


def autoload_state() -> Section:
    """Whether this package registers with mteb by itself in a new Python."""
    code = "import sys; print(any(type(f).__module__ == 'mteb_longembed.autoload' for f in sys.meta_path))"
    # from another folder, so that a checkout in the working folder does not look like an installed package
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(sys.executable).parent,
        check=False,
    )
    watching = done.stdout.strip() == "True"
    files = [Path(folder) / "mteb_longembed.pth" for folder in sys.path if folder]
    found: Section = {
        "a new Python watches for mteb": watching,
        "startup file": next((str(file) for file in files if file.is_file()), None),
        "MTEB_LONGEMBED_AUTOLOAD": os.environ.get("MTEB_LONGEMBED_AUTOLOAD"),
    }
    if not watching:
        switched = os.environ.get("MTEB_LONGEMBED_AUTOLOAD") == "0"
        why = "MTEB_LONGEMBED_AUTOLOAD=0 is set" if switched else "the startup file is not installed"
        found["problem"] = (
            f"the mteb command does not find our tasks and models, because {why}; in Python, import mteb_longembed "
            "registers them by hand."
        )
    return found


def hub_state() -> Section:
    """The address of the hub, and whether it answers within five seconds."""
    from huggingface_hub import constants

    from mteb_longembed.hub import hub_answers

    return {
        "address": constants.ENDPOINT,
        "offline mode (HF_HUB_OFFLINE)": constants.HF_HUB_OFFLINE,
        "answers": hub_answers(),
    }


def devices() -> Section:
    """The devices, and the attention kernel that each runs in full and in half precision."""
    import torch

    found: Section = {"cpu threads": torch.get_num_threads(), "cpu": _kernels("cpu")}
    kind = torch.accelerator.current_accelerator()
    if kind is not None:
        for number in range(torch.accelerator.device_count()):
            name = f"{kind.type}:{number}"
            title = f"{name} {torch.cuda.get_device_name(number)}" if kind.type == "cuda" else name
            found[title] = _kernels(name)
    return found


def _kernels(device: str) -> dict[str, str]:
    """How documents run on a device, for each number type: the kernel of packed batches, or a run on four tokens."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from mteb_longembed.encoders.attention import devices as device_facts
    from mteb_longembed.encoders.attention.kernels import attend

    class Names(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        q = torch.zeros(1, 1, 4, 64, dtype=dtype, device=device)
        name = str(dtype).removeprefix("torch.")
        if device_facts.packs(q.device, dtype):
            found[name] = device_facts.path(q.device, dtype)
            continue
        try:
            with Names() as names:
                attend(q, q, q, scale=1.0)
        except (RuntimeError, NotImplementedError) as error:
            found[name] = f"fails: {str(error).splitlines()[0]}"
            continue
        kernels = [op for op in names.seen if "attention" in op]
        seen = kernels[0].split(".")[1].strip("_") if kernels else "matrix products, some rows at a time"
        found[name] = f"padded batches, {seen}"
    return found


def caches() -> Section:
    """The folders of downloads and results, with their sizes in bytes."""
    import mteb
    from huggingface_hub import constants

    folders = {
        "hub (HF_HOME)": Path(constants.HF_HUB_CACHE),
        "results of mteb (MTEB_CACHE)": mteb.ResultCache().default_cache_path,
    }
    return {name: {"folder": str(folder), "bytes": _size(folder)} for name, folder in folders.items()}


def store_state(environ: Mapping[str, str] = os.environ) -> Section:
    """The store of embeddings for runs of mteb: its folder, size and limit in bytes."""
    from mteb_longembed.encoders.store.store import EmbeddingStore

    store = EmbeddingStore.from_environment(environ)
    if store is None:
        return {"folder": None, "bytes": 0, "limit in bytes": 0}
    return {
        "folder": str(store.folder),
        "bytes": _size(store.folder),
        "limit in bytes": store.max_bytes,
    }


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118  a Path each is slow
            except OSError:  # another process may remove it at any moment
                continue
    return total


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(key, inner)}" for key, inner in value.items())
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if "bytes" in name:
        return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"
    return str(value)
