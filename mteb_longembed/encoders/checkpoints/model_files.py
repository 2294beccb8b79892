"""The files of a model: in a folder, or at one commit of a repository on the hub."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeVar

from huggingface_hub import constants, errors

from mteb_longembed.errors import HubError, InputError, ModelError
from mteb_longembed.files import is_folder
from mteb_longembed.hub import download, hub_answers

from .strategy_file import Json

T = TypeVar("T")
_OURS = "mteb_longembed.encoders."
#: The classes of ours that a saved model may name in modules.json, and where they are now. Exactly these are trusted.
#: Until version 0.7 they were in a room `modules`.
SAVED_AS = {
    **{
        f"{_OURS}{name}": f"{_OURS}{name}"
        for name in (
            "trunk.LongTransformer",
            "heads.pooling.HeadPooling",
            "heads.pooling.GroupByDocument",
            "heads.weights.TokenWeights",
        )
    },
    f"{_OURS}modules.transformer.LongTransformer": f"{_OURS}trunk.LongTransformer",
    f"{_OURS}modules.transformer.WindowPooling": f"{_OURS}heads.pooling.HeadPooling",
    f"{_OURS}modules.span_pooling.SpanPooling": f"{_OURS}heads.pooling.HeadPooling",
    f"{_OURS}modules.span_pooling.GroupByDocument": f"{_OURS}heads.pooling.GroupByDocument",
    f"{_OURS}modules.token_weights.TokenWeights": f"{_OURS}heads.weights.TokenWeights",
}
#: A module in modules.json: its class (`type`), and its folder inside that of the model (`path`).
ModuleEntry = dict[str, str]
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The endings of files that determine a model's embeddings.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")


@dataclass(frozen=True)
class Files:
    """The files of a folder, or of one commit of a repository.

    Args:
        path: a folder, or a hub id. Empty for a model that has no files.
        commit: of the repository. None for a folder.
        local: whether they are in a folder.
        modules: the entries of modules.json.
        adapter_base: the files of the base, if these are only an adapter of PEFT.
    """

    path: str
    commit: str | None = None
    local: bool = False
    modules: tuple[ModuleEntry, ...] = ()
    adapter_base: Files | None = None

    @classmethod
    def open(cls, path: str, revision: str | None = None) -> Files:
        """The files of a folder, or of a repository at the commit that a branch or tag has now.

        If they are only an adapter of PEFT, they come with the files of its base.
        """
        files = cls._found(path, revision)
        return _with_adapter_base(replace(files, modules=files.read_modules()))

    @classmethod
    def _found(cls, path: str, revision: str | None) -> Files:
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
        if revision is not None and _COMMIT.fullmatch(revision):
            return files  # nobody is asked
        # the folder of a file in the hub's cache is named by the commit
        file = files.find("modules.json", optional=True) or files.find("config.json")
        if file and _COMMIT.fullmatch(file.parent.name):
            return cls(path, file.parent.name)
        return files

    def revision(self, *, code: bool = False) -> str | None:
        """The commit on the hub, or SHA-256 (40 hex digits) over a folder's weights and settings, by their names.

        Only files in the folder itself and in those of its modules count: what else lies there, such as an export
        in `onnx/`, is another model. The folder's own code counts too, if it runs.
        """
        if not self.local:
            return self.commit
        endings: tuple[str, ...] = _HASHED
        if code:
            endings = (*_HASHED, ".py")
        digest = hashlib.sha256()
        folders = {"", *(module["path"] for module in self.modules)}
        files = [file for folder in folders for file in Path(self.path, folder).glob("*")]
        for file in sorted(files):
            if not file.name.endswith(endings) or not file.is_file():
                continue
            now = file.stat()
            digest.update(os.fsencode(file.relative_to(self.path)) + b"\0")
            digest.update(_hash(str(file), now.st_size, now.st_mtime_ns))
        if self.adapter_base is not None:
            digest.update(str(self.adapter_base.revision(code=code)).encode())
        return digest.hexdigest()[:40]

    def load_options(self) -> dict[str, str | bool | None]:
        """The options with which transformers and sentence-transformers load these files and no others."""
        # if the hub does not answer, no file is retried: the small files came from the cache too
        return {"revision": self.commit, "local_files_only": self.local or not hub_answers()}

    def find(self, name: str, *, optional: bool = False) -> Path | None:
        """A file on this machine. None if there is none, or it is `optional` and the hub cannot be reached."""
        if self.local:
            file = Path(self.path, name)
            if file.is_file():
                return file
            return None
        try:
            return download(self.path, name, revision=self.commit)
        except HubError:
            raise
        except errors.EntryNotFoundError as error:
            if optional or not isinstance(error, errors.LocalEntryNotFoundError):
                return None
            raise unreachable(self.path) from error
        except (
            errors.RepositoryNotFoundError,
            errors.RevisionNotFoundError,
            errors.HFValidationError,
        ) as error:
            at = f" at revision {self.commit}" if self.commit else ""
            raise HubError(
                f"the hub has no readable model {self.path!r}{at}: check the name, and HF_TOKEN if it is "
                "private or gated."
            ) from error
        except OSError as error:  # of the network, or of huggingface_hub
            raise unreachable(self.path) from error

    def json(self, name: str, *, optional: bool = True) -> Json | None:
        """The content of a JSON file. None if there is no such file."""
        return self._content(name, dict, optional)

    @property
    def subfolder(self) -> str:
        """The folder of the transformer, with a slash. Empty if it is in the folder of the whole model."""
        if not self.modules or not self.modules[0]["path"]:
            return ""
        return f"{self.modules[0]['path']}/"

    def read_modules(self) -> tuple[ModuleEntry, ...]:
        """The entries of modules.json, none if there is no such file.

        Raises:
            ModelError: if it does not list modules inside its folder, or if ours are not the first.
        """
        modules: list[ModuleEntry] | None = self._content("modules.json", list, optional=True)
        if modules is None:
            return ()
        is_right = all(_is_well_formed(module) for module in modules)
        if is_right and has_our_modules(modules):
            is_right = modules[0]["type"] in SAVED_AS
        if not is_right:
            raise ModelError(
                f"modules.json of {self.path} must list modules with a type and a path each, ours first, got "
                f"{str(modules)[:80]!r}."
            )
        return tuple(modules)

    def _content(self, name: str, kind: type[T], optional: bool) -> T | None:
        file = self.find(name, optional=optional)
        if file is None:
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{name} of {self.path} cannot be read as JSON: {str(error)[:80]}.") from error
        if isinstance(content, kind):
            return content
        wanted = "an object"
        if kind is list:
            wanted = "a list"
        raise ModelError(f"{name} of {self.path} must hold {wanted}, got {str(content)[:80]!r}.")


@functools.lru_cache(maxsize=1024)
def _hash(file: str, size: int, changed_ns: int) -> bytes:
    """The hash of a file's content. A process reads each state of a file once."""
    with open(file, "rb") as stream:  # noqa: PTH123 - the name may be no text
        return hashlib.file_digest(stream, "sha256").digest()


def _with_adapter_base(files: Files) -> Files:
    """The files, with those of the base if they are only an adapter."""
    if files.find(f"{files.subfolder}config.json", optional=True) is not None:
        return files
    adapter = files.json(f"{files.subfolder}adapter_config.json") or {}
    base = adapter.get("base_model_name_or_path")
    revision = adapter.get("revision")
    if not isinstance(base, str):
        return files
    if not isinstance(revision, str):
        revision = None
    found = Files._found(base, revision)  # an adapter of an adapter is none
    return replace(files, adapter_base=replace(found, modules=found.read_modules()))


def has_our_modules(modules: Iterable[ModuleEntry]) -> bool:
    """Whether modules of ours are among these."""
    return any(module["type"] in SAVED_AS for module in modules)


def _is_well_formed(entry: object) -> bool:
    """Whether an entry of modules.json names a class and a folder inside that of the model."""
    if not isinstance(entry, dict):
        return False
    path = entry.get("path")
    if not isinstance(entry.get("type"), str) or not isinstance(path, str):
        return False
    return not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).anchor or ".." in path)


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only models that "
        "were downloaded before (HF_HOME) and local folders work offline."
    )


def local_name(path: str | Path) -> str:
    """`local/NAME` for a folder. It is never a path, and every system allows it in a folder name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"
