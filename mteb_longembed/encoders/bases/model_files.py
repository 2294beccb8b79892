"""The small files of a model, in a folder or at one commit of a repository, and the revision that they have."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypedDict, TypeVar

import torch
from huggingface_hub import constants, errors

from mteb_longembed.encoders.adapters import check_peft
from mteb_longembed.errors import HubError, InputError, LongEmbedError, ModelError
from mteb_longembed.hub import download, hub_answers, translate_hub_errors
from mteb_longembed.names.grammar import holds_model, is_folder

#: The content of a JSON object.
Json = dict[str, object]
T = TypeVar("T")
#: The classes of ours that a saved model may name in modules.json. Exactly these are trusted.
OUR_CLASSES = frozenset(
    f"mteb_longembed.encoders.{name}"
    for name in (
        "modules.LongTransformer",
        "modules.WindowPooling",
        "span_pooling.SpanPooling",
        "span_pooling.GroupByDocument",
        "span_pooling.PooledVectors",
        "token_weights.TokenWeights",
    )
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: The endings of files that determine a model's embeddings.
_HASHED = (".safetensors", ".bin", ".json", ".txt", ".model")

#: The files of a folder on disk: name, number, bytes, times of the last change of content and entry in nanoseconds.
Stamp = tuple[tuple[str, int, int, int, int], ...]
#: Two writes within this many nanoseconds may leave the same times.
_CLOCK_STEP_NS = 20_000_000


class ModuleEntry(TypedDict):
    """A module in modules.json: its class, and its folder inside that of the model."""

    type: str
    path: str


@dataclass(frozen=True)
class Files:
    """The files of a folder, or of one commit of a repository, in the state in which they were opened.

    Args:
        path: a folder, or a hub id.
        commit: of the repository. None for a folder.
        stamp: the state of a folder. None for a repository.
        adapter_base: the files of the base, if these are only an adapter of PEFT.
    """

    path: str
    commit: str | None = None
    stamp: Stamp | None = None
    adapter_base: Files | None = None  #: the files of the base, if these are only an adapter of PEFT
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, path: str, revision: str | None = None) -> Files:
        """The files of a folder, or of a repository at the commit that a branch or tag has now."""
        if is_folder(path):
            if revision is not None:
                raise InputError(
                    f"only a model on the hub has a revision to choose, got {revision!r} with the folder of {path}."
                )
            # "/" and "." are folders too, and we must not read everything below them
            return cls(str(Path(path).resolve()), stamp=_stamp(path) if holds_model(path) else ())
        if path.startswith((".", "/", "~")) or path.count("/") != 1:
            raise ModelError(
                f"{path!r} is neither a folder that exists nor a hub id of the form ORGANISATION/NAME."
            )
        if revision is not None and _COMMIT.fullmatch(revision):
            return cls(path, revision)  # nobody is asked
        files = cls(path, revision)
        # the folder of a file in the hub's cache is named by the commit
        file = files.find("modules.json", optional=True) or files.find("config.json")
        if file and _COMMIT.fullmatch(file.parent.name):
            return cls(path, file.parent.name)
        return files

    @property
    def local(self) -> bool:
        """Whether they are in a folder."""
        return self.stamp is not None

    def revision(self, *, code: bool = False) -> str | None:
        """The commit on the hub, or SHA-256 (40 hex digits) over a folder's weights and settings, by their names."""
        if not self.local:
            return self.commit
        digest = hashlib.sha256()
        for name, file in _files(self.path, code):
            digest.update(os.fsencode(name) + b"\0")
            with file.open("rb") as stream:
                hashlib.file_digest(stream, lambda: digest)
        if self.adapter_base is not None:
            digest.update(str(self.adapter_base.revision(code=code)).encode())
        return digest.hexdigest()[:40]

    def are_unchanged(self) -> bool:
        """Whether a folder still holds the files that it held. No file is read."""
        base_is_unchanged = self.adapter_base is None or self.adapter_base.are_unchanged()
        return base_is_unchanged and (not self.local or _stamp(self.path) == self.stamp)

    def name(self) -> str:
        """The name of a base with these files: the hub id, or `local/NAME`."""
        if self.local:
            return local_name(self.path)
        return self.path

    def check_unchanged(self, revision: str | None, *, code: bool) -> None:
        """Raise InputError if a folder no longer has the revision that it had when it was read."""
        if self.are_unchanged():
            return
        now = self.revision(code=code)
        if now != revision:
            raise InputError(
                f"{self.name()} must still be at revision {revision}, got {now}: its files have changed during the "
                "run, so start again."
            )

    def with_adapter_base(self) -> Files:
        """These files, with those of the base if they are only an adapter of PEFT."""
        inside = self.transformer_folder()
        has_config = self.find(f"{inside}config.json", optional=True) is not None
        if has_config:
            adapter = {}
        else:
            adapter = self.json(f"{inside}adapter_config.json") or {}
        base = adapter.get("base_model_name_or_path")
        revision = adapter.get("revision")
        if not isinstance(base, str):
            return self
        base_files = Files.open(base, revision if isinstance(revision, str) else None)
        check_peft(self.path)
        return replace(self, adapter_base=base_files)

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

    def modules(self) -> list[ModuleEntry] | None:
        """The entries of modules.json. None if there is no such file.

        Raises:
            ModelError: if it does not list modules inside its folder, or if ours are not the first.
        """
        modules: list[ModuleEntry] | None = self._content("modules.json", list, optional=True)
        if modules is None:
            return None
        is_right = all(_is_well_formed(module) for module in modules)
        if is_right and _lists_ours(modules):
            is_right = modules[0]["type"] in OUR_CLASSES
        if not is_right:
            raise ModelError(
                f"modules.json of {self.path} must list modules with a type and a path each, ours first, got "
                f"{str(modules)[:80]!r}."
            )
        return modules

    def are_ours(self) -> bool:
        """Whether they are those of an extended model that `save_pretrained` wrote."""
        return _lists_ours(self.modules() or [])

    def transformer_folder(self) -> str:
        """The folder of the transformer, with a slash. Empty if it is in the folder of the whole model."""
        modules = self.modules()
        if not modules or not modules[0]["path"]:
            return ""
        return f"{modules[0]['path']}/"

    def _content(self, name: str, kind: type[T], optional: bool) -> T | None:
        if name not in self._read:
            file = self.find(name, optional=optional)
            try:
                if file is None:
                    content = None
                else:
                    content = json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError) as error:
                raise ModelError(
                    f"{name} of {self.path} cannot be read as JSON: {str(error)[:80]}."
                ) from error
            if content is not None and not isinstance(content, kind):
                if kind is dict:
                    wanted = "an object"
                else:
                    wanted = "a list"
                raise ModelError(f"{name} of {self.path} must hold {wanted}, got {str(content)[:80]!r}.")
            self._read[name] = content
        return self._read[name]


def _is_well_formed(entry: object) -> bool:
    """Whether an entry of modules.json names a class and a folder inside that of the model."""
    if not isinstance(entry, dict):
        return False
    path = entry.get("path")
    if not isinstance(entry.get("type"), str) or not isinstance(path, str):
        return False
    return not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).anchor or ".." in path)


def _lists_ours(modules: list[ModuleEntry]) -> bool:
    return any(module["type"] in OUR_CLASSES for module in modules)


def unreachable(path: str) -> HubError:
    """The error for a repository that cannot be fetched."""
    return HubError(
        f"the hub at {constants.ENDPOINT} cannot be reached and {path!r} is not in the cache: only models that "
        "were downloaded before (HF_HOME) and local folders work offline."
    )


@contextlib.contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Turn the error of any library into one sentence that says why a base cannot be loaded."""
    try:
        with contextlib.nullcontext() if Path(path).is_dir() else translate_hub_errors():
            yield
    except (LongEmbedError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not Path(path).is_dir() and not hub_answers():
            raise unreachable(path) from error
        why = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the model in {path} cannot be loaded: {type(error).__name__}: {why.rstrip('.')}."
        ) from error


def local_name(path: str | Path) -> str:
    """`local/NAME` for a folder. It is never a path, and every system allows it in a folder name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).resolve().name).strip("-.") or "model"
    return f"local/{stem}"


def _stamp(path: str) -> Stamp:
    """The files of a folder with size and times. It waits until the last change is older than the clock's steps."""
    while True:
        stats = [(name, file.stat()) for name, file in _files(path, code=True)]
        newest = max((info.st_ctime_ns for _, info in stats), default=0)
        if not 0 <= time.time_ns() - newest < _CLOCK_STEP_NS:
            return tuple((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats)
        time.sleep(_CLOCK_STEP_NS / 1e9)


def _files(path: str, code: bool) -> list[tuple[str, Path]]:
    """The files of a folder that determine embeddings, by their names in it; also those in linked folders."""
    endings: tuple[str, ...] = _HASHED
    if code:
        endings = (*_HASHED, ".py")
    files: list[tuple[str, Path]] = []
    entered: set[str] = set()
    for folder, inner, names in os.walk(path, followlinks=True):
        if (real := os.path.realpath(folder)) in entered:  # a link that leads back
            inner.clear()
            continue
        entered.add(real)
        inside = os.path.relpath(folder, path).replace(os.sep, "/")
        if inside == ".":
            prefix = ""
        else:
            prefix = f"{inside}/"
        files += [(prefix + name, Path(folder, name)) for name in names if name.endswith(endings)]
    return sorted((name, file) for name, file in files if file.is_file())
