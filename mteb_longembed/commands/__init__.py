"""The sub-commands of `mteb-longembed`, one file each: its docstring is the description, `add_arguments`, `main`.

This is the top layer: it may import every other package, and only `cli` imports it, by name. Imports of torch and
mteb are inside functions, so that `--help` and usage errors need neither.
"""

import re

from mteb_longembed.errors import InputError

#: The help of options that several commands share.
CORPUS = "documents: JSON Lines, CSV, TSV, Parquet, or a folder of .txt and .md files, or of Parquet files"
DEVICE = "cpu, cuda, cuda:1, mps, ... (default: the best of this machine)"
JSON = "print JSON"


def check_device_form(device: str | None) -> None:
    """Raise InputError for a text that cannot name a device. torch knows which ones this machine has."""
    if device is not None and not re.fullmatch(r"[a-z]+(:\d+)?", device):
        raise InputError(
            f"--device must be a device of torch, such as cpu, that this machine has, got {device!r}: leave it out for "
            "the best one."
        )
