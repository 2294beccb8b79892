"""Show or clear the caches of this package: embeddings, and the indexes that `search` keeps."""

import argparse
import contextlib
import json
from pathlib import Path

from mteb_longembed.commands import JSON
from mteb_longembed.files import CACHE_VARIABLE, Json, cache_folder
from mteb_longembed.retrieval.kept_index import INDEXES
from mteb_longembed.retrieval.storage import MANIFEST, holds_index


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    parser.add_argument("--json", action="store_true", help=JSON)


def main(args: argparse.Namespace) -> int:
    """Print or clear the caches."""
    from tabulate import tabulate  # type: ignore[import-untyped]

    root = cache_folder()
    if root is None:
        print(f"The caches are switched off ({CACHE_VARIABLE}).")
        return 0
    rows = _rows(root)
    if args.clear:
        for path in _files(root):
            path.unlink()
        for folder in (root / INDEXES).glob("*"):
            with contextlib.suppress(OSError):
                folder.rmdir()
    if args.json:
        print(json.dumps({"folder": str(root), "cleared": args.clear, "entries": rows}, indent=2))
        return 0
    print(f"{'Cleared' if args.clear else 'Caches in'} {root}")
    if rows:
        shown = [{"what": row["what"], "MB": f"{row['bytes'] / 2**20:,.1f}"} for row in rows]
        print(tabulate(shown, "keys", "plain"))
    return 0


def _rows(root: Path) -> list[Json]:
    """Return the entries of the caches with their sizes in bytes."""
    rows: list[Json] = []
    embeddings = sum(path.stat().st_size for path in root.glob("embeddings-*.sqlite*"))
    if embeddings:
        rows.append({"what": "embeddings", "bytes": embeddings})
    for folder in sorted((root / INDEXES).glob("*")):
        name = folder.name
        if holds_index(folder):
            described = json.loads((folder / MANIFEST).read_bytes())
            name = f"index of {described['documents']:,} documents, {described['name']}"
        rows.append({"what": name, "bytes": sum(path.stat().st_size for path in folder.iterdir())})
    return rows


def _files(root: Path) -> list[Path]:
    """Return the files of our caches, without other files of the folder."""
    return [
        *root.glob("embeddings-*.sqlite*"),
        *(path for path in root.glob(f"{INDEXES}/*/*") if path.is_file()),
    ]
