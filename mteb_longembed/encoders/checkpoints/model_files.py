"""The files of a model, in a folder or at one commit of a repository, and what its small files hold."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypedDict, TypeVar

import torch
from huggingface_hub import constants, errors

from mteb_longembed.errors import HubError, InputError, LongEmbedError, ModelError
from mteb_longembed.hub import download, hub_answers, translate_hub_errors
from mteb_longembed.names.grammar import holds_model, is_folder

from .strategy_file import STRATEGY_FILE, Json

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
#: Packages of modules that load without code of the repository. sentence-transformers reads PyLate's as its own.
_STOCK = ("sentence_transformers.", "pylate.")
#: Classes of modules that give something else than dense vectors.
_NOT_DENSE = ("cross_encoder", "SparseEncoder", "Splade")
#: Heads of models that classify and do not embed.
_CLASSIFIERS = ("ForSequenceClassification", "ForImageClassification")
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
    adapter_base: Files | None = None

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
        files = cls(path, revision)
        if revision is not None and _COMMIT.fullmatch(revision):
            return files  # nobody is asked
        # the folder of a file in the hub's cache is named by the commit
        file = files.find("modules.json", optional=True) or files.find("config.json")
        if file and _COMMIT.fullmatch(file.parent.name):
            return cls(path, file.parent.name)
        return files

    @property
    def local(self) -> bool:
        """Whether they are in a folder."""
        return self.stamp is not None

    @property
    def name(self) -> str:
        """The name of a base with these files: the hub id, or `local/NAME`."""
        if self.local:
            return local_name(self.path)
        return self.path

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

    def check_unchanged(self, revision: str | None, *, code: bool) -> None:
        """Raise InputError if a folder no longer has the revision that it had when it was read."""
        if self.are_unchanged():
            return
        now = self.revision(code=code)
        if now != revision:
            raise InputError(
                f"{self.name} must still be at revision {revision}, got {now}: its files have changed during the "
                "run, so start again."
            )

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
        if is_right and list_ours(modules):
            is_right = modules[0]["type"] in OUR_CLASSES
        if not is_right:
            raise ModelError(
                f"modules.json of {self.path} must list modules with a type and a path each, ours first, got "
                f"{str(modules)[:80]!r}."
            )
        return modules

    def transformer_folder(self) -> str:
        """The folder of the transformer, with a slash. Empty if it is in the folder of the whole model."""
        modules = self.modules()
        if not modules or not modules[0]["path"]:
            return ""
        return f"{modules[0]['path']}/"

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
        if kind is dict:
            wanted = "an object"
        else:
            wanted = "a list"
        raise ModelError(f"{name} of {self.path} must hold {wanted}, got {str(content)[:80]!r}.")


@dataclass(frozen=True, eq=False)
class SmallFiles:
    """What the small files of an embedding model hold, as it is written there.

    Args:
        files: where they are.
        name: a hub id or `local/NAME`.
        revision: the hub's commit, or a hash of the local files.
        modules: the entries of modules.json.
        config_files: where the transformer's config.json is: with an adapter of PEFT, the files of its base.
        folder: the transformer's folder there.
        config: config.json.
        transformer: sentence_bert_config.json.
        tokenizer: tokenizer_config.json.
        model: config_sentence_transformers.json.
        pooling: the configuration of the first pooling.
        extension: our own file, if `save_pretrained` wrote the model.
        has_code: whether the repository brings code of its own.
        runs_code: whether that code may run.
    """

    files: Files
    name: str
    revision: str | None
    modules: tuple[ModuleEntry, ...]
    config_files: Files
    folder: str
    config: Json
    transformer: Json
    tokenizer: Json
    model: Json
    pooling: Json
    extension: Json | None
    has_code: bool
    runs_code: bool

    @property
    def are_ours(self) -> bool:
        """Whether they are those of an extended model that `save_pretrained` wrote."""
        return list_ours(self.modules)


def open_files(path: str, revision: str | None, trust_remote_code: bool) -> SmallFiles:
    """What the small files of an embedding model hold. Each state of a model is read once in a process.

    Args:
        path: a folder, or a hub id.
        revision: commit, branch or tag on the hub.
        trust_remote_code: whether code of the repository may run. Then it counts in the revision of a folder.

    Raises:
        HubError, ModelError: if they cannot be read, or are not those of an embedding model.
    """
    return _read(_with_adapter_base(Files.open(path, revision)), trust_remote_code)


@functools.lru_cache(maxsize=128)
def _read(files: Files, trust_remote_code: bool) -> SmallFiles:
    modules = files.modules()
    inside = files.transformer_folder()
    config_files = files
    folder = inside
    if files.adapter_base is not None:
        config_files = files.adapter_base
        folder = ""
    # checked first, because a folder that is no model may be a whole disk
    config = _checked(files.path, config_files.json(f"{folder}config.json", optional=False), modules)
    tokenizer = files.json(f"{inside}tokenizer_config.json") or {}
    has_code = "auto_map" in config or "auto_map" in tokenizer
    pooling: Json = {}
    for module in modules or ():
        has_code = has_code or not module["type"].startswith(_STOCK)
        if not pooling and module["type"].endswith("Pooling"):
            pooling = files.json(f"{module['path']}/config.json") or {}
    if list_ours(modules or ()):
        has_code = False
    runs_code = has_code and trust_remote_code
    return SmallFiles(
        files=files,
        name=files.name,
        revision=files.revision(code=runs_code),
        modules=tuple(modules or ()),
        config_files=config_files,
        folder=folder,
        config=config,
        transformer=files.json(f"{inside}sentence_bert_config.json") or {},
        tokenizer=tokenizer,
        model=files.json("config_sentence_transformers.json") or {},
        pooling=pooling,
        extension=files.json(f"{inside}{STRATEGY_FILE}"),
        has_code=has_code,
        runs_code=runs_code,
    )


def _with_adapter_base(files: Files) -> Files:
    """The files, with those of the base if they are only an adapter of PEFT."""
    inside = files.transformer_folder()
    if files.find(f"{inside}config.json", optional=True) is not None:
        return files
    adapter = files.json(f"{inside}adapter_config.json") or {}
    base = adapter.get("base_model_name_or_path")
    revision = adapter.get("revision")
    if not isinstance(base, str):
        return files
    if not isinstance(revision, str):
        revision = None
    return replace(files, adapter_base=Files.open(base, revision))


def _checked(path: str, config: Json | None, modules: list[ModuleEntry] | None) -> Json:
    """The content of config.json, if the model is a dense embedding model.

    Raises:
        ModelError: if there is no such file, or the model classifies or gives sparse vectors.
    """
    if config is None:
        inner = ""
        if modules:
            inner = f" (its modules: {[module['path'] for module in modules]})"
        raise ModelError(
            f"{path} has no config.json{inner}, so it is not a transformers model and cannot be extended."
        )
    types = [module["type"] for module in modules or ()]
    for kind in types:
        if any(name in kind for name in _NOT_DENSE):
            raise ModelError(f"{path} is not a dense embedding model: its modules are {', '.join(types)}.")
    what = _what_else(config)
    if modules is None and what is not None:
        raise ModelError(f"{path} is not an embedding model: it has no modules.json and is {what}.")
    return config


def _what_else(config: Json) -> str | None:
    """What a configuration of transformers describes, if it is no encoder."""
    architectures = config.get("architectures")
    for name in architectures if isinstance(architectures, list) else ():
        if str(name).endswith(_CLASSIFIERS):
            return str(name)
    if not {"model_type", "auto_map"} & set(config):
        return "a configuration without model_type"
    return None


def _is_well_formed(entry: object) -> bool:
    """Whether an entry of modules.json names a class and a folder inside that of the model."""
    if not isinstance(entry, dict):
        return False
    path = entry.get("path")
    if not isinstance(entry.get("type"), str) or not isinstance(path, str):
        return False
    return not (PurePosixPath(path).is_absolute() or PureWindowsPath(path).anchor or ".." in path)


def list_ours(modules: Iterable[ModuleEntry]) -> bool:
    """Whether modules of ours are among these."""
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
