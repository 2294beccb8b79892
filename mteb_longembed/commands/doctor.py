"""Show versions, the hub, devices and caches. The exit status is 1 if there is a problem, otherwise 0."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from mteb_longembed.commands import JSON
from mteb_longembed.files import Json

_PACKAGES = (
    "mteb-longembed", "mteb", "sentence-transformers", "transformers", "torch", "huggingface-hub", "datasets",
    "faiss-cpu",
)  # fmt: skip
#: Check whether a new Python process has the hook that waits for `import mteb`.
_WATCHES = "import sys; print(any(type(f).__module__ == 'mteb_longembed.autoload' for f in sys.meta_path))"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Print all sections and problems. The exit status is 1 if there is a problem."""
    sections = {"versions": versions(), "hub": hub(), "devices": devices(), "caches": caches()}
    problems = []
    if not sections["versions"]["mteb finds this package"]:
        problems.append(
            "the mteb command does not find our tasks and models, because mteb_longembed.pth is not installed or "
            "MTEB_LONGEMBED_AUTOLOAD=0 is set; in Python, import mteb_longembed registers them by hand."
        )
    if not sections["hub"]["answers"] and not sections["hub"]["offline (HF_HUB_OFFLINE)"]:
        problems.append(
            f"the hub at {sections['hub']['address']} does not answer, so only models and data of the cache can be "
            "used; set HF_HUB_OFFLINE=1 if that is intended."
        )
    if args.json:
        print(json.dumps({**sections, "problems": problems}, indent=2))
    else:
        for title, section in sections.items():
            print(title)
            for name, value in section.items():
                print(f"  {name:<32}{value}")
        print("\n".join(f"problem: {problem}" for problem in problems) or "no problem found")
    return int(bool(problems))


def versions() -> Json:
    """Return the versions of Python and of packages that affect results, and whether mteb finds this package."""
    # from another folder, so that a checkout in the working folder does not look like an installed package
    elsewhere = Path(sys.executable).parent
    command = [sys.executable, "-c", _WATCHES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, check=False)
    packages = {name: metadata.version(name) for name in _PACKAGES}
    finds = done.stdout.strip() == "True"
    return {"python": platform.python_version(), **packages, "mteb finds this package": finds}


def hub() -> Json:
    """Return the address of the hub, and whether it answers."""
    from huggingface_hub import constants

    from mteb_longembed.hub import hub_answers

    return {
        "address": constants.ENDPOINT,
        "offline (HF_HUB_OFFLINE)": constants.HF_HUB_OFFLINE,
        "answers": hub_answers(),
    }


def devices() -> Json:
    """Return the devices of this machine."""
    import torch

    section: Json = {"cpu": f"{torch.get_num_threads()} threads"}
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is not None:
        for index in range(torch.accelerator.device_count()):
            name = accelerator.type
            if accelerator.type == "cuda":
                name = torch.cuda.get_device_name(index)
            section[f"{accelerator.type}:{index}"] = name
    return section


def caches() -> Json:
    """Return the folders of models, results and embeddings."""
    from huggingface_hub import constants

    from mteb_longembed.encoders.embedding_cache import EmbeddingCache

    cache = EmbeddingCache.from_environment(os.environ)
    folders = {
        "models (HF_HOME)": constants.HF_HUB_CACHE,
        # mteb's own rule: importing mteb takes seconds
        "results of mteb (MTEB_CACHE)": os.environ.get("MTEB_CACHE") or str(Path.home() / ".cache" / "mteb"),
    }
    if cache is not None:
        folders["embeddings"] = str(cache.folder)
    return folders
