"""Whether a tokenizer splits words first, so that tokens before a cut of a text do not depend on the text after it."""

import json
import re
from typing import Any

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
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")


def guard_of(tokenizer_json: str) -> int | None:
    """So many characters before a cut, no token is trusted. None for a tokenizer that must read the whole text."""
    parts = json.loads(tokenizer_json)
    model = parts["model"]
    splitters = _flat(parts.get("pre_tokenizer"))
    steps = [*_flat(parts.get("normalizer")), *splitters]
    if model.get("type") not in _LOCAL_MODELS or model.get("dropout") or not all(map(_local, steps)):
        return None
    if not any(map(_splits, splitters)):
        return None
    added = [token["content"] for token in parts.get("added_tokens") or []]
    return 32 + max(map(len, added), default=0)


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
