"""Which tokens before a cut of a text cannot depend on the text after the cut, from a tokenizer's own description."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

#: A normaliser, pre-tokeniser or model in the serialised form of a tokenizer.
Part = dict[str, Any]

#: Normalisers that change a text character by character, or within one combining sequence, and pre-tokenisers that
#: look at most a few characters ahead to find the end of a word.
_LOCAL_PARTS = frozenset((
    "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Nmt", "Precompiled",
    "Prepend", "ByteLevel", "BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Metaspace", "Punctuation", "Digits",
    "CharDelimiterSplit", "UnicodeScripts",
))  # fmt: skip
#: Models that tokenise every pre-token separately and without randomness.
_LOCAL_MODELS = frozenset({"WordPiece", "BPE", "Unigram", "WordLevel"})
_UNDERSCORE = "▁"
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")


@dataclass(frozen=True)
class PrefixStability:
    """Which tokens before a cut do not depend on the text after the cut.

    `kind` is `words` (tokens up to a pre-token boundary), `spaces` (there are no pre-tokens, but no piece of the
    vocabulary crosses the start of a word) or `none`. `guard` is a number of characters: tokens that are so near to
    the cut are not trusted.
    """

    kind: Literal["words", "spaces", "none"]
    guard: int = 0


def prefix_stability(tokenizer_json: str) -> PrefixStability:
    """The locality of a tokenizer of the library `tokenizers`, from its serialised form."""
    parts = json.loads(tokenizer_json)
    added = [token["content"] for token in parts.get("added_tokens") or []]
    guard = 32 + max(map(len, added), default=0)
    model = parts["model"]
    splitters = _flat(parts.get("pre_tokenizer"))
    steps = [*_flat(parts.get("normalizer")), *splitters]
    if model.get("type") not in _LOCAL_MODELS or model.get("dropout") or not all(map(_local, steps)):
        return PrefixStability("none")
    if any(map(_splits, splitters)):
        return PrefixStability("words", guard)
    inside_words = model["type"] in ("BPE", "Unigram") and not _crosses_words(model, added)
    if inside_words and any(map(_marks_spaces, steps)):
        return PrefixStability("spaces", guard)
    return PrefixStability("none")


def _flat(part: Part | None) -> list[Part]:
    if part is None:
        return []
    if part.get("type") == "Sequence":
        inner = part.get("normalizers") or part.get("pretokenizers") or []
        return [leaf for child in inner for leaf in _flat(child)]
    return [part]


def _local(part: Part) -> bool:
    """Whether a normaliser or pre-tokeniser sees only what is near."""
    if part["type"] not in ("Replace", "Split"):
        return part["type"] in _LOCAL_PARTS
    if "String" in part["pattern"]:
        return True
    # a regular expression may depend only on the match and on the one character after it
    pattern = part["pattern"]["Regex"]
    bare = _CLASS.sub("C", pattern.replace("(?!\\S)", "").replace("(?i:", "(").replace("(?:", "("))
    bare = re.sub(r"\\[pP]\{[^}]*\}|\\[sSdDwWrntx|.*+?()\[\]\\{}-]", "C", bare)
    return re.search(r"\(\?|[\\.^$]", bare) is None


def _splits(part: Part) -> bool:
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


def _marks_spaces(part: Part) -> bool:
    if part["type"] == "Replace":
        return bool(part["pattern"] == {"String": " "} and part["content"] == _UNDERSCORE)
    return bool(part["type"] == "Metaspace" and part.get("replacement") == _UNDERSCORE)


def _crosses_words(model: Part, added: list[str]) -> bool:
    """Whether a piece of the vocabulary contains the start of a word after its own start."""
    vocab = model["vocab"]
    pieces = list(vocab)
    if not isinstance(vocab, dict):
        pieces = [piece for piece, _ in vocab]
    inside = re.compile(f"[^{_UNDERSCORE}]{_UNDERSCORE}")
    return any(inside.search(piece) for piece in pieces) or any(" " in a.strip() for a in added)
