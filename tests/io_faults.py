"""Makes one chosen call of input or output below chosen folders fail: open, write, flush, fsync, rename."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

#: The errors of a disk that is full, broken or not writable for us.
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
#: Functions of `os` whose first argument is a path.
_BY_PATH = ("mkdir", "unlink", "remove", "rename", "replace", "rmdir")


class Faults:
    """Counts the calls below some folders, and makes one of them fail.

    Args:
        folders: only calls for files in these folders count.
        fail_at: number of the call that fails, from 0. With None no call fails.
        error: `errno` of the failure.
    """

    def __init__(self, *folders: Path, fail_at: int | None = None, error: int = errno.ENOSPC) -> None:
        self.folders = [os.path.realpath(folder) for folder in folders]
        self.fail_at, self.error = fail_at, error
        self.calls: list[str] = []
        self._open: dict[int, str] = {}  # descriptors below the folders

    def reach(self, name: str) -> None:
        """Count a call, and raise if it is the one that fails."""
        self.calls.append(name)
        if len(self.calls) - 1 == self.fail_at:
            raise OSError(self.error, f"{os.strerror(self.error)} (injected into {name})")

    def counts(self, path: Any) -> bool:
        """Whether a path or descriptor belongs to a file below the folders."""
        if isinstance(path, int):
            return path in self._open
        try:
            real = os.path.abspath(os.fspath(path))  # noqa: PTH100  resolving would itself be a call
        except TypeError:
            return False
        if isinstance(real, bytes):
            return False
        return any(real == folder or real.startswith(folder + os.sep) for folder in self.folders)

    @contextlib.contextmanager
    def injected(self) -> Iterator[Faults]:
        """Replace Python's own functions by functions that count and may fail."""
        with contextlib.ExitStack() as stack:
            opened = self._opening(io.open)
            stack.enter_context(mock.patch.object(builtins, "open", opened))
            stack.enter_context(mock.patch.object(io, "open", opened))
            for name in (*_BY_PATH, "write", "fsync"):
                stack.enter_context(mock.patch.object(os, name, self._by_path(name, getattr(os, name))))
            stack.enter_context(mock.patch.object(os, "open", self._opening(os.open)))
            stack.enter_context(mock.patch.object(os, "close", self._closing(os.close)))
            if hasattr(os, "sendfile"):  # shutil uses it for copies if it can
                stack.enter_context(mock.patch("shutil._USE_CP_SENDFILE", False))
            yield self

    def _by_path(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is None and self.counts(path):
                self.reach(name)
            return function(path, *args, **kwargs)

        return called

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *args: Any, **kwargs: Any) -> Any:
            counts = kwargs.get("dir_fd") is None and self.counts(path)
            if counts and not isinstance(path, int):  # a descriptor was counted when it was made
                self.reach("open")
            file = function(path, *args, **kwargs)
            if not counts:
                return file
            self._open[file if isinstance(file, int) else file.fileno()] = str(path)
            return file if isinstance(file, int) else _File(file, self)

        return opened

    def _closing(self, function: Callable[[int], None]) -> Callable[[int], None]:
        def closed(descriptor: int) -> None:
            self._open.pop(descriptor, None)
            function(descriptor)

        return closed


class _File:
    """An open file whose writes and flushes count. A write that fails writes half of its data."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults, self._writes = file, faults, 0

    def write(self, data: Any) -> int:
        self._writes += 1
        try:
            # `json.dump` writes every number separately, so only the first and every hundredth write counts
            if self._writes % 100 == 1:
                self._faults.reach("write")
        except OSError:
            self._file.write(data[: len(data) // 2])
            raise
        return self._file.write(data)

    def flush(self) -> None:
        self._faults.reach("flush")
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        self._faults._open.pop(self._file.fileno(), None)  # another file may get its number
        try:
            if self._writes:  # the rest of the buffer is written to the disk only now
                self._faults.reach("flush")
        finally:
            self._file.close()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
