"""Show or clear the caches of this package: embeddings, and the indexes that `search` keeps."""

import argparse
import json
import re
from pathlib import Path

from mteb_longembed.commands import JSON
from mteb_longembed.errors import IndexFolderError
from mteb_longembed.files import CACHE_VARIABLE, Json, cache_folder
from mteb_longembed.retrieval.index_cache import INDEXES
from mteb_longembed.retrieval.storage import Reader, remove_index

#: The file of the embedding cache, of this version and of others, with SQLite's own files.
_EMBEDDINGS = "embeddings-*.sqlite*"
#: The folder of a cached index. Other folders are not ours.
_INDEX = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")


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
        for path in root.glob(_EMBEDDINGS):
            path.unlink()
        for folder in _indexes(root):
            remove_index(folder)
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
    embeddings = sum(path.stat().st_size for path in root.glob(_EMBEDDINGS))
    if embeddings:
        rows.append({"what": "embeddings", "bytes": embeddings})
    for folder in _indexes(root):
        try:
            manifest = Reader(folder).manifest
            what = f"index of {manifest.documents:,} documents, {manifest.name}"
        except IndexFolderError:
            what = f"index that cannot be opened, {folder.name}"
        n_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        rows.append({"what": what, "bytes": n_bytes})
    return rows


def _indexes(root: Path) -> list[Path]:
    """Return the folders of the cached indexes."""
    return sorted(path for path in (root / INDEXES).glob("*") if _INDEX.fullmatch(path.name))
