"""The files of a model: a folder, or one commit of a repository on the hub."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from posixpath import join
from typing import Self, TypeVar

from mteb_longembed.errors import InputError, LongEmbedError, ModelError
from mteb_longembed.files import Json
from mteb_longembed.hub import find
from mteb_longembed.zoo import is_folder

T = TypeVar("T", Json, list[object])
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The backbone class of saved models, as modules.json names it.
BACKBONE = "mteb_longembed.encoders.model.LongTransformer"
#: The endings of files that determine a model's embeddings.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")


@dataclass(frozen=True)
class Files:
    """The files of a folder, or of one commit of a repository."""

    path: str  #: a folder, or a hub id; empty for a model that has no files
    commit: str | None = None  #: commit of the repository; None for a folder
    local: bool = False  #: whether they are in a folder

    @classmethod
    def open(cls, path: str, revision: str | None = None) -> Self:
        """Open the files of a folder, or of a repository at the current commit of a branch or tag."""
        if is_folder(path):
            if revision is not None:
                raise InputError(
                    f"only a model on the hub has a revision to choose, got {revision!r} with the folder of {path}."
                )
            return cls(str(Path(path).resolve()), local=True)
        if path.startswith((".", "/", "~")) or path.count("/") != 1:
            raise ModelError(
                f"{path!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME."
            )
        files = cls(path, revision)
        if revision is None or not _COMMIT.fullmatch(revision):
            # in the hub's cache, the folder of a file is named after the commit
            file = files.find("modules.json") or files.find("config.json")
            if file and _COMMIT.fullmatch(file.parent.name):
                return cls(path, file.parent.name)
        return files

    def find(self, name: str) -> Path | None:
        """Return the local path of a file; None if there is none.

        Raises:
            HubError: if there is no such repository, or it cannot be reached and is not in the cache.
        """
        if not self.local:
            return find(self.path, name, self.commit)
        file = Path(self.path, name)
        return file if file.is_file() else None

    def json(self, name: str) -> Json:
        """Read the object in a JSON file; empty if the file does not exist."""
        return self._content(name, dict)

    def _content(self, name: str, expected: type[T]) -> T:
        """Read a value of this type from a JSON file; empty if the file does not exist."""
        file = self.find(name)
        if file is None:
            return expected()
        try:
            content: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{name} of {self.path} cannot be read as JSON: {str(error)[:80]}.") from error
        if not isinstance(content, expected):
            raise ModelError(
                f"{name} of {self.path} must hold a {expected.__name__}, got {str(content)[:80]!r}."
            )
        return content

    def modules(self) -> list[dict[str, str]]:
        """Return the entries of modules.json, a class (`type`) and a folder (`path`) each; empty without such a file.

        A router is followed by the modules of its routes, the documents' route first.

        Raises:
            ModelError: if it does not list modules inside its folder.
        """
        entries = self._checked("modules.json", self._content("modules.json", list))
        if entries and entries[0]["type"].endswith(".Router"):
            name = join(entries[0]["path"], "router_config.json")
            types = self.json(name).get("types")
            routes = types if isinstance(types, dict) else {}
            parts = sorted(routes, key=lambda part: not part.startswith("document_"))
            inside = [{"type": routes[part], "path": join(entries[0]["path"], part)} for part in parts]
            entries += self._checked(name, inside)
        return entries

    def _checked(self, name: str, entries: Sequence[object]) -> list[dict[str, str]]:
        """Return the entries of a file. ModelError unless they are modules inside the folder."""
        checked = []
        for entry in entries:
            module = entry if isinstance(entry, dict) else {}
            class_name, inside = module.get("type"), module.get("path")
            is_inside = isinstance(inside, str) and not PureWindowsPath(inside).anchor and ".." not in inside
            if not is_inside or not isinstance(class_name, str):
                raise ModelError(
                    f"{name} of {self.path} must list modules with a type, and a path inside the model's own folder, "
                    f"got {entry!r:.120}."
                )
            checked.append(module)
        return checked

    def _in(self, folders: Iterable[str]) -> Iterator[Path]:
        """Yield the files directly inside some folders."""
        for folder in folders:
            yield from (file for file in Path(self.path, folder).glob("*") if file.is_file())

    def fingerprint(self, folders: Iterable[str]) -> list[tuple[Path, int, int]]:
        """Return each file of some folders with its modification time and size; empty for a commit, which is fixed."""
        if not self.local:
            return []
        stats = ((file, file.stat()) for file in self._in(folders))
        return sorted((file, stat.st_mtime_ns, stat.st_size) for file, stat in stats)

    def hashed(self, folders: Iterable[str], *, code: bool) -> str:
        """Hash names and contents of weights and settings in some folders, and of code if it runs, to 40 hex digits.

        Other folders, such as an export in `onnx/`, are other models. All weights are read.
        """
        endings = (*_HASHED, ".py") if code else _HASHED
        digest = hashlib.sha256()
        for file in sorted(self._in(folders)):
            if file.name.endswith(endings):
                digest.update(os.fsencode(file.relative_to(self.path)) + b"\0")
                with open(file, "rb") as stream:  # noqa: PTH123 - the name may be no text
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()[:40]


def local_name(path: str | Path) -> str:
    """Return `local/NAME` for a folder. It is never a path, and every system allows it as a folder name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"


def is_saved(name: str, revision: str | None) -> bool:
    """Return whether a repository on the hub has a model that we saved; False if it cannot be read."""
    try:
        return BACKBONE in [module["type"] for module in Files.open(name, revision).modules()]
    except LongEmbedError:
        return False
