"""A Hugging Face hub on 127.0.0.1 that serves folders, so that real loading code runs without a network.

It also accepts the uploads of `push_to_hub`. Each upload is a new commit.

>>> import tempfile, urllib.request
>>> with LoopbackHub() as hub:
...     sha = hub.add("ours/tiny", {"config.json": b"{}"})
...     urllib.request.urlopen(f"{hub.url}/ours/tiny/resolve/main/config.json").read()
b'{}'

For another process use `subprocess.run([...], env=hub.env(tmp))`, for this process `hub.patch(monkeypatch, tmp)`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

Content = bytes | Path
_DATE = "2024-04-18T00:00:00.000Z"
_KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}


@dataclass(frozen=True)
class Repository:
    """One commit of a repository: its files by path."""

    repo_id: str
    repo_type: str
    sha: str
    files: dict[str, Content]

    def read(self, path: str) -> bytes:
        content = self.files[path]
        return content if isinstance(content, bytes) else content.read_bytes()

    def size(self, path: str) -> int:
        content = self.files[path]
        return len(content) if isinstance(content, bytes) else content.stat().st_size

    def oid(self, path: str) -> str:
        """Git's own blob id, which the hub sends as the ETag of small files."""
        content = self.read(path)
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def folders(self) -> set[str]:
        return {str(parent) for path in self.files for parent in Path(path).parents} - {"."}

    def entry(self, path: str) -> dict[str, Any]:
        commit = {"id": self.sha, "title": "served by the loopback hub", "date": _DATE}
        if path in self.files:
            oid = self.oid(path)
            return {"type": "file", "path": path, "size": self.size(path), "oid": oid, "lastCommit": commit}
        oid = hashlib.sha1(path.encode()).hexdigest()
        return {"type": "directory", "path": path, "size": 0, "oid": oid, "lastCommit": commit}

    def tree(self, folder: str, recursive: bool) -> list[dict[str, Any]]:
        prefix = f"{folder}/" if folder else ""
        inside = [path for path in {*self.files, *self.folders()} if path.startswith(prefix)]
        return [self.entry(path) for path in sorted(inside) if recursive or "/" not in path[len(prefix) :]]

    def info(self) -> dict[str, Any]:
        blobs = [{"rfilename": p, "size": self.size(p), "blobId": self.oid(p)} for p in sorted(self.files)]
        info = {"id": self.repo_id, "sha": self.sha, "private": False, "gated": False, "disabled": False}
        info |= {"tags": [], "downloads": 0, "likes": 0, "lastModified": _DATE, "createdAt": _DATE}
        if self.repo_type == "model":
            info["modelId"] = self.repo_id
            if "modules.json" in self.files:
                info |= {"library_name": "sentence-transformers", "tags": ["sentence-transformers"]}
            info |= {"cardData": self.card(), "safetensors": self.parameters()}
        return info | {"siblings": blobs}

    def card(self) -> dict[str, Any] | None:
        """The data between the two lines of dashes at the top of README.md."""
        text = self.read("README.md") if "README.md" in self.files else b""
        match = re.match(rb"---\r?\n(.*?)\r?\n---", text, re.S)
        return yaml.safe_load(match[1]) if match else None

    def parameters(self) -> dict[str, Any] | None:
        """How many parameters of each type the weights in the top folder have. The hub counts no others."""
        counts: Counter[str] = Counter()
        for path in self.files:
            if path.endswith(".safetensors") and "/" not in path:
                content = self.read(path)
                (length,) = struct.unpack("<Q", content[:8])
                for name, tensor in json.loads(content[8 : 8 + length]).items():
                    if name != "__metadata__":
                        counts[tensor["dtype"]] += math.prod(tensor["shape"])
        return {"parameters": dict(counts), "total": sum(counts.values())} if counts else None


class LoopbackHub:
    """A context manager. The hub listens at `url` while it is open. `requests` records `METHOD /path`."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], dict[str, Repository]] = {}
        self.requests: list[str] = []
        #: Large files by SHA-256. They are uploaded before the commit that names them.
        self.uploaded: dict[str, bytes] = {}
        #: Answers a request in another way than a hub does, if it returns True.
        self.fault: Callable[[Any, str], bool] | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(
        self, repo_id: str, files: str | Path | Mapping[str, Content | str], repo_type: str = "model",
        sha: str | None = None, branch: str = "main",
    ) -> str:  # fmt: skip
        """Serve a folder, or files by path. `branch` then points to them. Returns the commit's 40-digit SHA.

        A later `add` of the same repository is a new commit. Older commits can still be reached by their SHA.
        """
        if isinstance(files, str | Path):
            folder = Path(files)
            paths = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
            contents: dict[str, Content] = dict(paths)
        else:
            contents = {p: data.encode() if isinstance(data, str) else data for p, data in files.items()}
        repository = Repository(repo_id, repo_type, "", contents)
        listing = "".join(f"{path} {repository.oid(path)}\n" for path in sorted(contents))
        sha = sha or hashlib.sha1(f"{repo_id}\n{listing}".encode()).hexdigest()
        repository = Repository(repo_id, repo_type, sha, contents)
        commits = self.repositories.setdefault((repo_type, repo_id), {})
        commits[sha] = commits[branch] = repository
        return sha

    def create(self, repo_id: str, repo_type: str) -> None:
        """Create a repository without files. Raises _Refused if it exists already."""
        if (repo_type, repo_id) in self.repositories:
            message = f"You already created this {repo_type} repo: {repo_id}"
            raise _Refused(409, message, url=f"{self.url}/{repo_id}")
        large = "*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
        self.add(repo_id, {".gitattributes": large}, repo_type)

    def branch(self, repo_type: str, repo_id: str, name: str) -> None:
        """Let a new branch start where `main` is."""
        commits = self.repositories[repo_type, repo_id]
        commits[name] = commits["main"]

    def commit(self, repo_type: str, repo_id: str, branch: str, lines: list[dict[str, Any]]) -> str:
        """Put files into a branch, as the lines of an upload say, and return the new commit's SHA."""
        files = dict(self.find(repo_type, repo_id, branch).files)
        for line in lines:
            value = line["value"]
            match line["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.uploaded[value["oid"]]
        return self.add(repo_id, files, repo_type, branch=branch)

    def env(self, home: str | Path, **extra: str) -> dict[str, str]:
        """The environment of a subprocess that uses this hub and keeps its caches in `home`."""
        settings = {
            "HF_ENDPOINT": self.url, "HF_HOME": str(home), "MTEB_CACHE": str(Path(home) / "mteb"),
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            # a busy machine must not look like an unreachable hub
            "HF_HUB_ETAG_TIMEOUT": "30", "HF_HUB_DOWNLOAD_TIMEOUT": "30",
            "DISABLE_SAFETENSORS_CONVERSION": "1",  # otherwise transformers asks a Space to convert weights
            "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
        }  # fmt: skip
        drop = r"(?i)(HF_|HUGGING|TRANSFORMERS_|SENTENCE_TRANSFORMERS_HOME|MTEB_).*|.*_proxy"
        kept = {name: value for name, value in os.environ.items() if not re.fullmatch(drop, name)}
        return kept | settings | extra

    def patch(self, monkeypatch: Any, home: str | Path) -> None:
        """Point the already imported huggingface_hub and datasets to this hub (pytest's monkeypatch)."""
        import datasets.config
        import huggingface_hub.constants
        import huggingface_hub.hf_api

        import mteb_longembed.hub

        # a client from an earlier test has the proxies of that test
        huggingface_hub.close_session()
        caches = Path(home)
        for name, value in self.env(home).items():
            if name.startswith(("HF_", "DISABLE_")) or name.lower() == "no_proxy":
                monkeypatch.setenv(name, value)
        constants = huggingface_hub.constants
        values = {
            "ENDPOINT": self.url, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True, "HF_HOME": str(caches),
            "HF_HUB_CACHE": str(caches / "hub"), "HUGGINGFACE_HUB_CACHE": str(caches / "hub"),
            "HUGGINGFACE_CO_URL_TEMPLATE": self.url + "/{repo_id}/resolve/{revision}/{filename}",
        }  # fmt: skip
        for name, value in values.items():
            if hasattr(constants, name):
                monkeypatch.setattr(constants, name, value)
        # another hub may have used the same port before
        mteb_longembed.hub._ask.cache_clear()
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", self.url)
        # transformers keeps its own API object from its first use, perhaps for the hub of another test
        monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", self.url)
        template = self.url + "/datasets/{repo_id}/resolve/{revision}/{path}"
        monkeypatch.setattr(datasets.config, "HUB_DATASETS_URL", template)
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", caches / "datasets")

    def find(self, repo_type: str, repo_id: str, revision: str) -> Repository:
        """The files of a revision. Raises _NotFound with the hub's own error code."""
        commits = self.repositories.get((repo_type, repo_id))
        if commits is None:
            raise _NotFound("RepoNotFound", f"no {repo_type} {repo_id}", None, status=401)
        if revision not in commits:
            raise _NotFound("RevisionNotFound", f"no revision {revision}", None)
        return commits[revision]

    def __enter__(self) -> LoopbackHub:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _NotFound(Exception):
    def __init__(self, code: str, message: str, sha: str | None, status: int = 404) -> None:
        super().__init__(message)
        self.code, self.sha, self.status = code, sha, status


class _Refused(Exception):
    """A request that the hub refuses. The answer is a sentence."""

    def __init__(self, status: int, message: str, **answer: str) -> None:
        super().__init__(message)
        self.status, self.answer = status, {"error": message, **answer}


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client

    def log_message(self, *args: object) -> None:
        """Print nothing: `LoopbackHub.requests` is the log."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path = unquote(url.path).strip("/")
        self.hub.requests.append(f"{self.command} /{path}")
        if self.hub.fault is not None and self.hub.fault(self, path):
            return None
        try:
            if path == "api/validate-yaml":
                return self._json({"errors": [], "warnings": []})
            if self.command in ("POST", "PUT") and (written := self._written(path, body)) is not None:
                return self._json(written)
            if path.startswith("api/"):
                return self._json(self._api(path.removeprefix("api/"), parse_qs(url.query)))
            return self._file(path)
        except _Refused as error:
            return self._json(error.answer, error.status)
        except _NotFound as error:
            headers = {"X-Error-Code": error.code, "X-Error-Message": str(error)}
            if error.sha:
                headers["X-Repo-Commit"] = error.sha
            return self._send(error.status, str(error).encode(), headers)

    def _api(self, path: str, query: dict[str, list[str]]) -> Any:
        kind, _, rest = path.partition("/")
        if kind not in _KINDS:
            raise _NotFound("EntryNotFound", f"no such route: {path}", None)
        # a repository id is NAME or OWNER/NAME, so the verb is the second or the third part
        match = re.fullmatch(r"(.+?)/(revision|tree|commits)(?:/([^/]+))?(?:/(.*))?", rest)
        repo_id, verb, revision, inner = match.groups() if match else (rest, "revision", None, None)
        repository = self.hub.find(_KINDS[kind], repo_id, revision or "main")
        match verb:
            case "tree":
                folder = inner or ""
                if folder and folder not in repository.folders():
                    raise _NotFound("EntryNotFound", f"no folder {folder}", repository.sha)
                return repository.tree(folder, query.get("recursive", ["False"])[0].lower() in ("true", "1"))
            case "commits":
                return [{"id": repository.sha, "title": "", "message": "", "date": _DATE, "authors": []}]
            case _:
                return repository.info()

    def _file(self, path: str) -> None:
        route = r"(?:(datasets|spaces)/)?(.+?)/(?:resolve|raw)/(refs/[^/]+/[^/]+|[^/]+)/(.+)"
        if (match := re.fullmatch(route, path)) is None:
            raise _NotFound("EntryNotFound", f"no such page: {path}", None)
        kind, repo_id, revision, name = match.groups()
        repository = self.hub.find(_KINDS[kind or "models"], repo_id, revision)
        if name not in repository.files:
            raise _NotFound("EntryNotFound", f"no file {name}", repository.sha)
        content = repository.read(name)
        headers = {"X-Repo-Commit": repository.sha, "ETag": f'"{repository.oid(name)}"'}
        headers["Accept-Ranges"] = "bytes"
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not wanted:
            return self._send(200, content, headers)
        first = int(wanted[1])
        last = min(int(wanted[2] or len(content) - 1), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self._send(206, content[first : last + 1], headers)

    def _written(self, path: str, body: bytes) -> Any:
        """The answer to a request of an upload. None for a request that only reads."""
        if path == "api/repos/create":
            requested = json.loads(body)
            repo_id = "/".join(filter(None, (requested.get("organization"), requested["name"])))
            self.hub.create(repo_id, requested.get("type") or "model")
            return {"url": f"{self.hub.url}/{repo_id}", "id": repo_id}
        if match := re.fullmatch(r"(?:(datasets|spaces)/)?(.+?)\.git/info/lfs/objects/batch", path):
            objects = [self._wanted_upload(one) for one in json.loads(body)["objects"]]
            return {"transfer": "basic", "objects": objects}
        if match := re.fullmatch(r"lfs/([0-9a-f]{64})", path):
            self.hub.uploaded[match[1]] = body
            return {}
        match = re.fullmatch(r"api/(\w+)/([^/]+/[^/]+)/(preupload|commit|branch)/(.+)", path)
        if match is None:
            return None
        kind, repo_id, verb, branch = match.groups()
        if verb == "branch":
            self.hub.branch(_KINDS[kind], repo_id, branch)
            return {}
        self.hub.find(_KINDS[kind], repo_id, branch)
        if verb == "preupload":
            return {"files": [_mode_of(file["path"]) for file in json.loads(body)["files"]]}
        sha = self.hub.commit(_KINDS[kind], repo_id, branch, [json.loads(line) for line in body.splitlines()])
        return {"success": True, "commitOid": sha, "commitUrl": f"{self.hub.url}/{repo_id}/commit/{sha}"}

    def _wanted_upload(self, requested: dict[str, Any]) -> dict[str, Any]:
        wanted = {"oid": requested["oid"], "size": requested["size"]}
        if requested["oid"] in self.hub.uploaded:
            return wanted
        return {
            **wanted,
            "actions": {"upload": {"href": f"{self.hub.url}/lfs/{requested['oid']}", "header": {}}},
        }

    do_HEAD = do_GET = do_POST = do_PUT = _answer

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/octet-stream", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _mode_of(path: str) -> dict[str, Any]:
    large = path.endswith((".safetensors", ".bin"))
    return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": None}
