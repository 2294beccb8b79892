"""The field's terms: words that the glossary replaced are used nowhere in the package, its pages and its tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: An old word -> the term of information retrieval and sentence-transformers that replaced it.
REPLACED = {
    r"\btrunk\b": "backbone",
    r"\b(fuse|trust|neighbours)=": "fusion=, lexical_weight=, +lexical",
    r"\bnats\b": "log-odds",
    r"\brarity\b": "IDF",
    r"\bdrawn (documents|sentences|queries)\b": "sampled documents, pseudo-queries",
    r"\b(Those|those|That|that) of\b": "the noun itself",
    r"\bso many\b": "this many, or a number",
    r"\bof ours\b": "our, or the noun itself",
    r"\bwhat is given\b": "the noun itself",
    r"\bmay be best\b": "kept, with its definition",
}
FILES = [
    *sorted((ROOT / "mteb_longembed").rglob("*.py")),
    *sorted((ROOT / "mteb_longembed").rglob("*.j2")),
    *sorted((ROOT / "mteb_longembed").rglob("*.js")),
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]


LINES = [
    (f"{file.relative_to(ROOT)}:{number}: {line.strip()}", line)
    for file in FILES
    if file not in (Path(__file__), ROOT / "tests" / "test_small_faults.py")  # which write the old words
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
]


@pytest.mark.parametrize("word", REPLACED)
def test_a_replaced_word_is_used_nowhere(word: str) -> None:
    uses = [shown for shown, line in LINES if re.search(word, line)]
    assert not uses, f"use {REPLACED[word]}"
