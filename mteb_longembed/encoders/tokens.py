"""From texts to token ids, without reading more of a text than is needed.

The library `tokenizers` truncates after it has read the whole text, so 512 tokens of a book cost as much as all its
tokens. Here a text is cut at a space first. Tokenizers that split texts at spaces return the same tokens before the
cut, whatever follows it; others read the whole text.
"""

import heapq
import json
import re
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from sentence_transformers.base import BaseModel
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from mteb_longembed.files import Json
from mteb_longembed.given import without_surrogates
from mteb_longembed.sentences import CHARS_PER_TOKEN

#: The token ids of one text, int32.
Ids = np.ndarray
#: Characters to read per needed token. English needs 4 to 5. If they are too few, more are read.
_CHARS_TO_READ = 6
#: Where a text may be cut: before a space, which no word and no punctuation with its line breaks crosses.
_BLANK = re.compile(r"(?<=\S) ")
#: Pre-tokenizers that split texts at spaces, of BERT, sentencepiece and GPT-2. The last one may follow a
#: regular expression (Qwen, Llama), whose words and punctuation end before a space too.
_SPLITTING = ("BertPreTokenizer", "Metaspace", "ByteLevel")
#: Tokens of the documents that a model is fitted on. Fifty documents of 12,000 tokens do nearly as well as 200.
MAX_TOKENS = 10_000_000


class Cutter:
    """A plain fast tokenizer that reads only as much of a text as the needed tokens require.

    Differs: a lone surrogate is read as U+FFFD, because no tokenizer accepts it.
    """

    def __init__(self, backend: Tokenizer, prefix_ids: Ids, suffix_ids: Ids) -> None:
        self._backend = backend
        self.splits = splits_at_blanks(backend.to_str())
        self.prefix_ids = prefix_ids
        self.suffix_ids = suffix_ids

    def __call__(self, texts: Sequence[str], max_len: int) -> list[Ids]:
        """Return token ids of each text, prompt and special tokens included, cut to `max_len` tokens: int32 arrays."""
        room = max(max_len - len(self.prefix_ids) - len(self.suffix_ids), 0)
        return [np.concatenate([self.prefix_ids, row, self.suffix_ids]) for row in self.contents(texts, room)]

    def contents(self, texts: Sequence[str], room: int) -> list[Ids]:
        """Return the first `room` ids of each text without special tokens."""
        rows: dict[int, Ids] = {}
        n_chars = _CHARS_TO_READ * room
        while len(rows) < len(texts):
            starts = {i: self._start(text, n_chars) for i, text in enumerate(texts) if i not in rows}
            cleaned = list(map(without_surrogates, starts.values()))
            read = self._backend.encode_batch_fast(cleaned, add_special_tokens=False)
            for (i, start), encoding in zip(starts.items(), read, strict=True):
                if len(encoding.ids) >= room or len(start) == len(texts[i]):
                    rows[i] = np.array(encoding.ids[:room], np.int32)
            n_chars *= 4
        return [rows[i] for i in range(len(texts))]

    def _start(self, text: str, n_chars: int) -> str:
        """Return about the first `n_chars` characters of a text, up to a space; all of it if there is none."""
        blank = None
        if self.splits and n_chars < len(text):
            blank = _BLANK.search(text, n_chars)
        if blank is None:
            return text
        return text[: blank.start()]


def splits_at_blanks(tokenizer_json: str) -> bool:
    """Return whether text after a space never changes the tokens before it, by the kind of the pre-tokenizer."""
    parts: Json = json.loads(tokenizer_json)
    splitter = parts["pre_tokenizer"] or {"type": "none"}
    before: list[Json] = []
    if splitter["type"] == "Sequence":
        *before, splitter = splitter["pretokenizers"]
    if splitter["type"] == "ByteLevel" and not splitter["use_regex"]:
        return any(part["type"] == "Split" and "Regex" in part["pattern"] for part in before)
    return splitter["type"] in _SPLITTING and splitter.get("split", True)


#: For each tokenizer its parts when its cutter was built, and the cutter.
_CUTTERS: WeakKeyDictionary[PreTrainedTokenizerFast, tuple[object, Cutter | None]] = WeakKeyDictionary()


def cutter_of(tokenizer: PreTrainedTokenizerBase | None) -> Cutter | None:
    """Return the tokenizer's `Cutter`; None if texts must go through the tokenizer itself.

    It is built once, and again if the tokenizer was changed in place.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.truncation_side != "right":
        return None
    # a custom class, or this setting, reads texts differently
    is_own = type(tokenizer)._encode_plus is not PreTrainedTokenizerFast._encode_plus
    if is_own or tokenizer.split_special_tokens:
        return None
    parts = parts_of(tokenizer)
    entry = _CUTTERS.get(tokenizer)
    if entry is None or entry[0] != parts:
        entry = _CUTTERS[tokenizer] = parts, _build_cutter(tokenizer.backend_tokenizer.to_str())
    return entry[1]


def parts_of(tokenizer: object) -> list[object] | None:
    """Return a cheap fingerprint that changes with a tokenizer; None for one that is not of `tokenizers`."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    backend = tokenizer.backend_tokenizer
    return [len(tokenizer), *map(repr, (backend.normalizer, backend.pre_tokenizer, backend.post_processor))]


def _build_cutter(tokenizer_json: str) -> Cutter | None:
    """Build a cutter; None if the ids before and after a text depend on it, or are of several types."""
    # a copy, because every call of the original, from any thread, changes its truncation and padding
    backend = Tokenizer.from_str(tokenizer_json)
    backend.no_truncation()
    backend.no_padding()
    special = backend.encode("").ids
    read = backend.encode("a b")
    bare = backend.encode("a b", add_special_tokens=False).ids
    before = read.special_tokens_mask.index(0)
    if any(read.type_ids) or read.ids != [*special[:before], *bare, *special[before:]]:
        return None
    return Cutter(backend, np.array(special[:before], np.int32), np.array(special[before:], np.int32))


def document_prompt(model: BaseModel) -> str:
    """Return the prompt that a model puts before every document."""
    for name in ("document", "passage", "corpus"):
        if prompt := model.prompts.get(name):
            return str(prompt)
    return ""


# ---- texts: given and sampled ----------------------------------------------------------------------------------


def estimated_tokens(text: str, max_input_len: int | None = None) -> int:
    """Estimate the tokens of a text, at most `max_input_len`, without reading it."""
    special = 2  # one before the text and one after it
    n_tokens = int(len(text) / CHARS_PER_TOKEN) + special
    if max_input_len is None:
        return n_tokens
    return min(n_tokens, max_input_len)


def sample_texts(
    documents: Iterable[str], max_input_len: int | None, max_tokens: int = MAX_TOKENS, seed: int = 0
) -> tuple[list[str], int]:
    """Sample documents; return them in the order of their corpus, and the size of the corpus.

    The sample has about `max_tokens` tokens, by `estimated_tokens`. It is a reservoir: each document gets a random key,
    and the documents with the lowest keys stay. A model reads at most `max_input_len` tokens of a document; None if it
    reads all.

    >>> sample_texts(["a", "b"], None), sample_texts(iter("abcd"), None, max_tokens=4)[1]
    ((['a', 'b'], 2), 4)
    """
    rng = np.random.default_rng(seed)
    # the document with the highest key comes first
    kept: list[tuple[float, int, int, str]] = []
    n_tokens = 0
    n_documents = 0
    for text in documents:
        tokens = estimated_tokens(text, max_input_len)
        heapq.heappush(kept, (-rng.random(), n_documents, tokens, text))
        n_documents += 1
        n_tokens += tokens
        while n_tokens - kept[0][2] >= max_tokens:
            n_tokens -= heapq.heappop(kept)[2]
    in_order = sorted(kept, key=lambda one: one[1])
    return [text for *_, text in in_order], n_documents
