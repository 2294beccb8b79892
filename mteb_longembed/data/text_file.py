"""Texts on disk, for corpora that memory does not hold."""

import tempfile
from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from mteb_longembed.files import write_at


class TextFile(Sequence[str]):
    """Texts in a temporary file, in the order in which they came. Memory has only where each of them ends.

    The file goes with the object. Threads may not share it.

    Args:
        texts: the first ones.

    Raises:
        StorageError: if the disk refuses a write.

    >>> texts = TextFile(["a", "b c"])
    >>> texts[1], texts[-2:], len(texts)
    ('b c', ['a', 'b c'], 2)
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        self._ends = array("q", [0])
        for text in texts:
            self.append(text)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        places = range(len(self))[place]
        if isinstance(places, range):
            return [self[number] for number in places]
        start = self._ends[places]
        self._file.seek(start)
        return self._file.read(self._ends[places + 1] - start).decode("utf-8", "surrogatepass")

    def append(self, text: str) -> None:
        """Add a text behind the others.

        Raises:
            StorageError: if the disk refuses the write. The text is not added then.
        """
        data = text.encode("utf-8", "surrogatepass")
        write_at(self._file, self._ends[-1], data, "the texts of the documents")
        self._ends.append(self._ends[-1] + len(data))

    def keep_first(self, n: int) -> None:
        """Forget all texts behind the first `n`."""
        del self._ends[n + 1 :]
