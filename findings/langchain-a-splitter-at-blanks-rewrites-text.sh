#!/usr/bin/env bash
# LangChain's CharacterTextSplitter at blanks makes two blanks one, and says that the chunk starts at -1.
#
# Expected: each chunk stands in the text, and text[start_index:] begins with it, as with RecursiveCharacterTextSplitter.
# Seen (langchain-text-splitters 1.1.3): of "one two  three four  five six  seven eight" in chunks of 16 characters, two of
# three chunks are not in the text, and their start_index is -1, without a word.
# Why it matters: an answer cannot be shown in its document, and -1 read as an index is its last character.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile langchain-text-splitters==1.1.3
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

text = "one two  three four  five six  seven eight"
options = {"chunk_size": 16, "chunk_overlap": 0, "add_start_index": True}


def chunks(splitter) -> list[tuple[str, int]]:
    return [(one.page_content, one.metadata["start_index"]) for one in splitter.create_documents([text])]


plain = chunks(CharacterTextSplitter(separator=" ", **options))
recursive = chunks(RecursiveCharacterTextSplitter(**options))
print("langchain-text-splitters", version("langchain-text-splitters"), plain, recursive)
assert [start for _, start in plain] == [-1, -1, 31]
assert all(text[start:].startswith(chunk) for chunk, start in recursive)
PYTHON
