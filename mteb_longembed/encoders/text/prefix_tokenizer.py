"""Token ids of long texts without reading the whole text. They equal full tokenisation, and are many times faster.

The library `tokenizers` truncates after it has read the whole text, so 512 tokens of a book cost as much as all its
tokens. Here the text is cut first. Only those tokens are used that the text after the cut cannot change.
"""

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from mteb_longembed.encoders.features import Ids
from mteb_longembed.encoders.text.prefix_stability import guard_of

#: Characters to read for each needed token. English needs 4 to 5. If they are too few, the whole text is read.
_CHARS_TO_READ = 6
#: So many pre-tokens before a cut are never trusted, because patterns such as `'(s|ll|ve)` look that far ahead.
_WORDS_IN_DOUBT = 4
#: Where a text may be cut: before white space, because no combining mark, joiner or word crosses it.
_BLANK = re.compile(r"(?<=\S)[ \n\t]")
#: Texts whose ids are kept, so that several strategies of one base read each text once.
KEPT_TEXTS = 1024


class RecentIds:
    """The ids of the last texts, by tokenizer, text and length. Threads may share it."""

    def __init__(self, most: int = KEPT_TEXTS) -> None:
        self.most = most
        self._ids: OrderedDict[bytes, Ids] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Ids | None:
        """The ids of a text, if they are kept."""
        with self._lock:
            if key in self._ids:
                self._ids.move_to_end(key)
            return self._ids.get(key)

    def put(self, key: bytes, ids: Ids) -> None:
        """Keep the ids of a text; those that nobody asked for longest go."""
        with self._lock:
            self._ids[key] = ids
            while len(self._ids) > self.most:
                self._ids.popitem(last=False)


#: The ids of this process.
RECENT = RecentIds()


class PrefixTokenizer:
    """A plain fast tokenizer (see `prefix_tokenizer_of`) that reads no more of a text than the needed tokens require.

    Differs: a lone surrogate is read as U+FFFD, because no tokenizer accepts it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, recent: RecentIds = RECENT) -> None:
        # a copy, because every call of the original, from any thread, changes its truncation and padding
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_truncation()
        self._backend.no_padding()
        serialised = self._backend.to_str()
        self._fingerprint = hashlib.blake2b(serialised.encode(), digest_size=16).digest()
        self.recent = recent
        #: As `guard_of` says.
        self.guard = guard_of(serialised)
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
        keys = [self._key(text, room) for text in texts]
        found = {key: self.recent.get(key) for key in keys}
        # equal texts are tokenised once
        missing = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        for key, ids in zip(missing, self._read(list(missing.values()), room), strict=True):
            self.recent.put(key, ids)
            found[key] = ids
        return [ids for ids in map(found.get, keys) if ids is not None]

    def _key(self, text: str, room: int) -> bytes:
        digest = hashlib.blake2b(self._fingerprint, digest_size=16)
        digest.update(b"%d " % room)
        digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def _read(self, texts: list[str], room: int) -> list[Ids]:
        """The first `room` ids of each text: from its start if that is enough, else from all of it."""
        starts = [self._start(text, room) for text in texts]
        cut = [i for i, start in enumerate(starts) if len(start) < len(texts[i])]
        ids: list[Ids | None] = [None] * len(texts)
        pieces = [without_surrogates(starts[i]) for i in cut]
        encodings = self._backend.encode_batch(pieces, add_special_tokens=False) if pieces else []
        for i, piece, encoding in zip(cut, pieces, encodings, strict=True):
            if self._is_safe(encoding, piece, room):
                ids[i] = np.array(encoding.ids[:room], np.int32)
        rest = [i for i, known in enumerate(ids) if known is None]
        whole = [without_surrogates(texts[i]) for i in rest]
        fast = self._backend.encode_batch_fast(whole, add_special_tokens=False) if whole else []
        for i, encoding in zip(rest, fast, strict=True):
            ids[i] = np.array(encoding.ids[:room], np.int32)
        return [row for row in ids if row is not None]

    def _start(self, text: str, room: int) -> str:
        """The start of a text that should have `room` tokens, up to a blank; the whole text if there is none."""
        if self.guard is None:
            return text
        wanted = _CHARS_TO_READ * room + 2 * self.guard
        if wanted >= len(text):
            return text
        blank = _BLANK.search(text, wanted)
        if blank is None:
            return text
        return text[: blank.start()]

    def _is_safe(self, encoding: Encoding, piece: str, room: int) -> bool:
        """Whether the text after the cut cannot change the first `room` tokens."""
        n = len(encoding)
        if self.guard is None or n <= room:
            return False
        if room == 0:
            return True
        chars = encoding.token_to_chars(room - 1)
        word = encoding.token_to_word(room - 1)
        final = encoding.token_to_word(n - 1)
        if chars is None or word is None or final is None:
            return False
        return chars[1] <= len(piece) - self.guard and word < final - _WORDS_IN_DOUBT


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


#: By tokenizer: its state when its cutter was made, and the cutter.
_CUTTERS: WeakKeyDictionary[PreTrainedTokenizerFast, tuple[object, PrefixTokenizer]] = WeakKeyDictionary()


def prefix_tokenizer_of(tokenizer: PreTrainedTokenizerBase | None) -> PrefixTokenizer | None:
    """The tokenizer's `PrefixTokenizer`. None if texts must go through the tokenizer itself.

    It is made once, and again when the tokenizer was changed in place.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if type(tokenizer)._encode_plus is not PreTrainedTokenizerFast._encode_plus:
        return None  # it reads texts in its own way
    if tokenizer.truncation_side != "right" or getattr(tokenizer, "split_special_tokens", False):
        return None
    backend = tokenizer.backend_tokenizer
    parts = (backend.normalizer, backend.pre_tokenizer, backend.post_processor)
    state = len(tokenizer), *map(repr, parts)
    known = _CUTTERS.get(tokenizer)
    if known is None or known[0] != state:
        known = _CUTTERS[tokenizer] = state, PrefixTokenizer(tokenizer)
    if known[1].can_cut:
        return known[1]
    return None
