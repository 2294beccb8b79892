"""`mteb-longembed doctor`: what this machine has, and what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from mteb_longembed.commands import JSON, Options

Section = dict[str, Any]

_PACKAGES = (
    "mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch", "huggingface-hub", "datasets",
    "faiss-cpu",
)  # fmt: skip
DESCRIPTION = (
    "Show versions, whether mteb finds this package, whether the hub answers, how attention runs on the devices, "
    "the caches, and the store of embeddings. The exit status is 1 if there is a problem, otherwise 0."
)
OPTIONS: Options = {"": [JSON]}


def main(args: argparse.Namespace) -> int:
    """Print what was found.

    Args:
        args: `json` prints JSON in the place of text.

    Returns:
        The exit status, 1 if there is a problem.
    """
    import mteb
    from huggingface_hub import constants

    from mteb_longembed.encoders.store.store import EmbeddingStore
    from mteb_longembed.hub import hub_answers

    store = EmbeddingStore.from_environment(os.environ)
    sections: dict[str, Section] = {
        "versions": versions(),
        "autoload": autoload_state(),
        "hub": {
            "address": constants.ENDPOINT,
            "offline mode (HF_HUB_OFFLINE)": constants.HF_HUB_OFFLINE,
            "answers": hub_answers(),
        },
        "devices": devices(),
        "caches": {
            "hub (HF_HOME)": _folder(Path(constants.HF_HUB_CACHE)),
            "results of mteb (MTEB_CACHE)": _folder(mteb.ResultCache().default_cache_path),
        },
        "store": {**_folder(None), "limit in bytes": 0},
    }
    if store is not None:
        sections["store"] = {**_folder(store.folder), "limit in bytes": store.max_bytes}
    problems = [str(section.pop("problem")) for section in sections.values() if "problem" in section]
    if args.json:
        print(json.dumps({**sections, "problems": problems}, indent=2))
    else:
        _print(sections)
        print("\n".join(f"problem: {problem}" for problem in problems) or "no problem found")
    return int(bool(problems))


def _print(section: Section, indent: int = 0) -> None:
    """One line for each value; those of an inner section are below its title."""
    width = max(map(len, section), default=0)
    for name, value in section.items():
        if isinstance(value, dict):
            print(f"{'':{indent}}{name}")
            _print(value, indent + 2)
        else:
            print(f"{'':{indent}}{name:<{width}}  {_shown(name, value)}")


def versions() -> Section:
    """Versions of Python and of the packages that change results; None for a package that is not installed."""
    section: Section = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            section[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            section[name] = None
    missing = [name for name, version in section.items() if version is None]
    if missing:
        section["problem"] = f"not installed: {', '.join(missing)}; pip install mteb-longembed installs them."
    elif _is_installed("mteb-core"):
        section["problem"] = (
            "mteb-core is installed beside mteb, and both have the same files, so removing one breaks the other: pip "
            "uninstall both, then pip install mteb."
        )
    return section


def _is_installed(name: str) -> bool:
    """Whether Python finds a distribution of this name."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def autoload_state() -> Section:
    """Whether this package registers with mteb by itself in a new Python."""
    code = "import sys; print(any(type(f).__module__ == 'mteb_longembed.autoload' for f in sys.meta_path))"
    # from another folder, so that a checkout in the working folder does not look like an installed package
    folder = Path(sys.executable).parent
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    watching = process.stdout.strip() == "True"
    files = [Path(folder) / "mteb_longembed.pth" for folder in sys.path if folder]
    section: Section = {
        "a new Python watches for mteb": watching,
        "startup file": next((str(file) for file in files if file.is_file()), None),
        "MTEB_LONGEMBED_AUTOLOAD": os.environ.get("MTEB_LONGEMBED_AUTOLOAD"),
    }
    if not watching:
        why = "the startup file is not installed"
        if os.environ.get("MTEB_LONGEMBED_AUTOLOAD") == "0":
            why = "MTEB_LONGEMBED_AUTOLOAD=0 is set"
        section["problem"] = (
            f"the mteb command does not find our tasks and models, because {why}; in Python, import mteb_longembed "
            "registers them by hand."
        )
    return section


def devices() -> Section:
    """The devices: for each number type, whether documents run packed, without padding, and why not."""
    import torch

    section: Section = {"cpu threads": torch.get_num_threads(), "cpu": _forms("cpu")}
    kind = torch.accelerator.current_accelerator()
    if kind is not None:
        for number in range(torch.accelerator.device_count()):
            name = f"{kind.type}:{number}"
            title = name
            if kind.type == "cuda":
                title = f"{name} {torch.cuda.get_device_name(number)}"
            section[title] = _forms(name)
    return section


def _forms(device: str) -> dict[str, str]:
    """How attention runs on a device, for each number type: tried with a small tensor."""
    import torch

    from mteb_longembed.encoders.attention.devices import why_padded
    from mteb_longembed.encoders.attention.kernels import attend

    forms = {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        try:
            q = torch.zeros(1, 1, 4, 64, dtype=dtype, device=device)
            attend(q, q, q, scale=1.0)
        except (RuntimeError, NotImplementedError) as error:
            forms[name] = f"fails: {str(error).splitlines()[0]}"
            continue
        why = why_padded(q.device, dtype)
        forms[name] = f"padded batches: {why}" if why else "packed batches"
    return forms


def _folder(folder: Path | None) -> Section:
    """A folder with the size of its files in bytes; empty if there is no folder."""
    total = 0
    for parent, _, files in os.walk(folder or ""):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118  a Path each is slow
            except OSError:  # another process may remove it at any moment
                continue
    return {"folder": folder and str(folder), "bytes": total}


def _shown(name: str, value: Any) -> str:
    """A value as text: yes, no or none; bytes as MiB or GiB."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if "bytes" not in name:
        return str(value)
    if value >= 2**30:
        return f"{value / 2**30:.2f} GiB"
    return f"{value / 2**20:.1f} MiB"
