"""Whether a tokenizer is local: whether the start of a text alone determines its first tokens.

A tokenizer is local if its normaliser, pre-tokeniser and model look only a few characters beyond the place that they
work on. All parts that this module does not know count as not local. Texts are then tokenised in full.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

#: Normalisers that change a text character by character, or within one combining sequence.
_LOCAL_NORMALIZERS = frozenset(
    (
        "BertNormalizer",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "StripAccents",
        "Strip",
        "Nmt",
        "Precompiled",
    )
    + ("Prepend", "ByteLevel")
)
#: Pre-tokenisers that look at most a few characters ahead to find the end of a word.
_LOCAL_PRE_TOKENIZERS = frozenset(
    ("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "ByteLevel", "Metaspace", "Punctuation", "Digits")
    + ("CharDelimiterSplit", "UnicodeScripts")
)
#: Models that tokenise every pre-token separately and without randomness.
_LOCAL_MODELS = frozenset({"WordPiece", "BPE", "Unigram", "WordLevel"})
_UNDERSCORE = "▁"
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")


@dataclass(frozen=True)
class Locality:
    """Which tokens before a cut do not depend on the text after the cut.

    `kind` is `words` (tokens up to a pre-token boundary), `spaces` (there are no pre-tokens, but no piece of the
    vocabulary crosses the start of a word) or `none`. `guard` is a number of characters: tokens that are so near to
    the cut are not trusted.
    """

    kind: Literal["words", "spaces", "none"]
    guard: int = 0


def locality(tokenizer_json: str) -> Locality:
    """The locality of a tokenizer of the library `tokenizers`, from its serialised form."""
    parts = json.loads(tokenizer_json)
    added = [token["content"] for token in parts.get("added_tokens") or []]
    guard = 32 + max(map(len, added), default=0)
    model, normalizer, splitter = parts["model"], parts.get("normalizer"), parts.get("pre_tokenizer")
    chance = bool(model.get("dropout"))
    if model.get("type") not in _LOCAL_MODELS or chance or not all(map(_local_normalizer, _flat(normalizer))):
        return Locality("none")
    splitters = _flat(splitter)
    if not all(map(_local_pre_tokenizer, splitters)):
        return Locality("none")
    if any(map(_splits, splitters)):
        return Locality("words", guard)
    spaces = any(map(_marks_spaces, [*_flat(normalizer), *splitters]))
    if spaces and model["type"] in ("BPE", "Unigram") and not _crosses_words(model, added):
        return Locality("spaces", guard)
    return Locality("none")


def _flat(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    if part is None:
        return []
    if part.get("type") == "Sequence":
        inner = part.get("normalizers") or part.get("pretokenizers") or []
        return [leaf for child in inner for leaf in _flat(child)]
    return [part]


def _local_normalizer(part: dict[str, Any]) -> bool:
    if part["type"] == "Replace":
        return "String" in part["pattern"] or _local_pattern(part["pattern"]["Regex"])
    return part["type"] in _LOCAL_NORMALIZERS


def _local_pre_tokenizer(part: dict[str, Any]) -> bool:
    if part["type"] == "Split":
        return "String" in part["pattern"] or _local_pattern(part["pattern"]["Regex"])
    return part["type"] in _LOCAL_PRE_TOKENIZERS


def _local_pattern(pattern: str) -> bool:
    """Whether a regular expression depends only on the match and on the one character after it."""
    bare = _CLASS.sub("C", pattern.replace("(?!\\S)", "").replace("(?i:", "(").replace("(?:", "("))
    bare = re.sub(r"\\[pP]\{[^}]*\}|\\[sSdDwWrntx|.*+?()\[\]\\{}-]", "C", bare)
    return re.search(r"\(\?|[\\.^$]", bare) is None


def _splits(part: dict[str, Any]) -> bool:
    """Whether a pre-tokeniser cuts ordinary text into words."""
    match part["type"]:
        case "ByteLevel":
            return bool(part.get("use_regex", True))
        case "Metaspace":
            return bool(part.get("split", True))
        case "Split":
            # the normaliser may have replaced every space, and then this pattern splits nothing
            return "Regex" in part["pattern"]
        case kind:
            return kind in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")


def _marks_spaces(part: dict[str, Any]) -> bool:
    if part["type"] == "Replace":
        return part["pattern"] == {"String": " "} and part["content"] == _UNDERSCORE
    return part["type"] == "Metaspace" and part.get("replacement") == _UNDERSCORE


def _crosses_words(model: dict[str, Any], added: list[str]) -> bool:
    """Whether a piece of the vocabulary contains the start of a word after its own start."""
    vocab = model["vocab"]
    pieces = vocab if isinstance(vocab, dict) else [piece for piece, _ in vocab]
    inside = re.compile(f"[^{_UNDERSCORE}]{_UNDERSCORE}")
    return any(inside.search(piece) for piece in pieces) or any(" " in a.strip() for a in added)
