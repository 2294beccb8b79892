"""Token ids that were read already: several lengths or strategies of one base read each text once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from mteb_longembed.encoders.features import Ids

#: Bytes of token ids that are kept for the same base. A longer length reads a text again, unless all of it was kept.
CACHE_BYTES = 256 << 20


class Content(NamedTuple):
    """The leading token ids of a text, without special tokens. `complete` if the text has no more tokens."""

    ids: Ids
    complete: bool


class IdCache:
    """Token ids by text, at most `max_bytes`. The least recently used are removed first. Threads may share it."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._entries: OrderedDict[bytes, Content] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, max_len: int) -> Ids | None:
        """The first `max_len` ids (all, if there are fewer). None if they are not in the cache."""
        with self._lock:
            content = self._entries.get(key)
            if content is None or not (content.complete or len(content.ids) >= max_len):
                return None
            self._entries.move_to_end(key)
            return content.ids[:max_len]

    def put(self, key: bytes, content: Content) -> None:
        """Keep `content`, unless it is larger than the whole cache."""
        size = content.ids.nbytes
        if size > self.max_bytes:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            self.n_bytes += size - (old.ids.nbytes if old else 0)
            self._entries[key] = content
            while self.n_bytes > self.max_bytes:
                self.n_bytes -= self._entries.popitem(last=False)[1].ids.nbytes

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.n_bytes = 0


#: The cache of this process. With it, several lengths or strategies of one base read each text once.
CACHE = IdCache()
