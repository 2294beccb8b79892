"""Token ids of long texts without reading the whole text. They equal full tokenisation, and are many times faster.

The library `tokenizers` truncates after it has read the whole text, so 512 tokens of a book cost as much as all its
tokens. Here the text is cut first. Only those tokens are used that the text after the cut cannot change.
"""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.text.prefix_stability import PrefixStability, prefix_stability

#: Characters to read for each needed token. English needs 4 to 5. If they are too few, a longer part is read.
_CHARS_TO_READ = 6
#: So many pre-tokens before a cut are never trusted, because patterns such as `'(s|ll|ve)` look that far ahead.
_WORDS_IN_DOUBT = 4
#: How many characters before the wanted length are searched for a good place for a cut.
_SEARCH = 256
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


#: The cache of this process. With it, several lengths or strategies of one base read each text once.
CACHE = IdCache()


class PrefixTokenizer:
    """A plain fast tokenizer (see `prefix_tokenizer_of`) that reads no more of a text than the needed tokens require.

    Differs: a lone surrogate is read as U+FFFD, because no tokenizer accepts it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, cache: IdCache = CACHE) -> None:
        # a copy, because every call of the original, from any thread, changes its truncation and padding
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_truncation()
        self._backend.no_padding()
        serialised = self._backend.to_str()
        self._fingerprint = hashlib.blake2b(serialised.encode(), digest_size=16).digest()
        self.cache = cache
        self.stability: PrefixStability = prefix_stability(serialised)
        special = _special_tokens(self._backend)
        #: Whether the ids before and after a text do not depend on it.
        self.can_cut = special is not None
        prefix, suffix = special or ([], [])
        self.prefix_ids = np.array(prefix, np.int32)
        self.suffix_ids = np.array(suffix, np.int32)

    def __call__(self, texts: Sequence[str], max_len: int) -> list[Ids]:
        """Token ids of each text (prompt included), special tokens included, cut to `max_len` tokens: int32 arrays."""
        room = max(max_len - len(self.prefix_ids) - len(self.suffix_ids), 0)
        return [np.concatenate([self.prefix_ids, ids, self.suffix_ids]) for ids in self.contents(texts, room)]

    def contents(self, texts: Sequence[str], room: int) -> list[Ids]:
        """The first `room` ids of each text without special tokens."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        keys = [hashlib.blake2b(text, digest_size=16, key=self._fingerprint).digest() for text in encoded]
        cached = [self.cache.get(key, room) for key in keys]
        # equal texts are tokenised once
        missing = {key: i for i, (key, ids) in enumerate(zip(keys, cached, strict=True)) if ids is None}
        fresh = dict(zip(missing, self._read([texts[i] for i in missing.values()], room), strict=True))
        for key, content in fresh.items():
            self.cache.put(key, content)
        return [fresh[key].ids if ids is None else ids for key, ids in zip(keys, cached, strict=True)]

    def _read(self, texts: list[str], room: int) -> list[Content]:
        done: list[Content | None] = [None] * len(texts)
        wanted = _CHARS_TO_READ * room + 2 * self.stability.guard
        local = self.stability.kind != "none"
        cuts = {i: cut_point(text, wanted) if local else len(text) for i, text in enumerate(texts)}
        while cuts:
            uncut = [i for i, cut in cuts.items() if cut == len(texts[i])]
            read = [without_surrogates(texts[i]) for i in uncut]
            encodings = []
            if read:
                encodings = self._backend.encode_batch_fast(read, add_special_tokens=False)
            for i, encoding in zip(uncut, encodings, strict=True):
                done[i] = Content(np.array(encoding.ids[:room], np.int32), complete=len(encoding) <= room)
            parts = [i for i in cuts if done[i] is None]
            pieces = [without_surrogates(texts[i][: cuts[i]]) for i in parts]
            cuts = {}
            encodings = self._backend.encode_batch(pieces, add_special_tokens=False)
            for i, piece, encoding in zip(parts, pieces, encodings, strict=True):
                if self._safe(encoding, piece, room):
                    done[i] = Content(np.array(encoding.ids[:room], np.int32), complete=False)
                else:
                    cuts[i] = self._next_cut(texts[i], encoding, len(piece), room)
        return [content for content in done if content is not None]

    def _next_cut(self, text: str, encoding: Encoding, read: int, room: int) -> int:
        """The next place to cut: at least twice as far, or the end of a text that has no words."""
        n = len(encoding)
        has_few_words = n == 0 or (encoding.token_to_word(n - 1) or 0) <= _WORDS_IN_DOUBT
        if has_few_words and self.stability.kind == "words":
            return len(text)
        return cut_point(text, max(2 * read, int(1.2 * room * read / max(n, 1))), beyond=read)

    def _safe(self, encoding: Encoding, piece: str, room: int) -> bool:
        """Whether the text after the cut cannot change the first `room` tokens."""
        n = len(encoding)
        if n <= room:
            return False
        if room == 0:
            return True
        last_chars = encoding.token_to_chars(room - 1)
        trusted = len(piece) - self.stability.guard
        if last_chars is None or (end := last_chars[1]) > trusted:
            return False
        if self.stability.kind == "spaces":
            starts = piece[end:trusted].replace("\u2581", " ").split(" ")
            return sum(map(bool, starts)) > 2
        last = encoding.token_to_word(room - 1)
        final = encoding.token_to_word(n - 1)
        return last is not None and final is not None and last < final - _WORDS_IN_DOUBT


def cut_point(text: str, wanted: int, beyond: int = 0) -> int:
    """The last place within `wanted` characters where a cut divides no character, or the whole length.

    A place before white space is best, because no combining mark, joiner or word crosses it. The cut comes after
    `beyond`, a number of characters that was too small: otherwise the search never ends.
    """
    if wanted >= len(text):
        return len(text)
    indices = range(wanted, max(wanted - _SEARCH, beyond), -1)
    for fits in (" \n\t".__contains__, _starts_anew):
        for at in indices:
            if fits(text[at]):
                return at
    return len(text)


def _starts_anew(char: str) -> bool:
    """Whether a character never joins the character before it: it is no mark, format character or Hangul jamo."""
    return unicodedata.category(char)[0] in "LNP" and not "\u1100" <= char <= "\u11ff"


def without_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _special_tokens(backend: Tokenizer) -> tuple[list[int], list[int]] | None:
    """The ids before and after every text. None if they depend on it."""
    full = backend.encode("a")
    bare = backend.encode("a", add_special_tokens=False).ids
    mask = full.special_tokens_mask
    if not bare or 0 not in mask or any(full.type_ids):
        return None
    start = mask.index(0)
    prefix = full.ids[:start]
    suffix = full.ids[start + len(bare) :]
    for text in ("a", "", "a b"):
        if backend.encode(text).ids != prefix + backend.encode(text, add_special_tokens=False).ids + suffix:
            return None
    return prefix, suffix


#: By tokenizer: the cutters by its size, because added tokens change the ids of a text.
_CUTTERS: WeakKeyDictionary[PreTrainedTokenizerFast, dict[int, PrefixTokenizer]] = WeakKeyDictionary()


def prefix_tokenizer_of(tokenizer: PreTrainedTokenizerBase | None) -> PrefixTokenizer | None:
    """The tokenizer's `PrefixTokenizer`, made once. None if texts must go through the tokenizer itself."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if type(tokenizer)._encode_plus is not PreTrainedTokenizerFast._encode_plus:
        return None  # it reads texts in its own way
    if tokenizer.truncation_side != "right" or getattr(tokenizer, "split_special_tokens", False):
        return None
    known = _CUTTERS.setdefault(tokenizer, {})
    size = len(tokenizer)
    if size not in known:
        known[size] = PrefixTokenizer(tokenizer)
    if known[size].can_cut:
        return known[size]
    return None
