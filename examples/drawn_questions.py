"""Questions to edit, sampled from your documents: a sentence of each of N documents.

python drawn_questions.py docs.jsonl 50 FOLDER

A sentence has the words of its document, which favours exact words: write it as your users would ask before you compare
with queries.jsonl and qrels.jsonl.
"""

import json
import random
import sys
from pathlib import Path

import regex

from mteb_longembed.data.check import read_documents
from mteb_longembed.sentences import sentences

WORDS = (6, 40)
_MARK_AT_END = regex.compile(r"[\p{SB=ST}\p{SB=AT}][\p{SB=CL}\p{SB=EX}\p{SB=FO}]*$", regex.VERSION1)
#: What no sentence of prose has: the second half of one, a part of a table, of a program or of a quoted mail.
_NO_PROSE = regex.compile(
    r"[-*+•]\s|[\"'“‘(\[]*\p{Ll}|[>|#@]|[\"']{3}|.*(?:\||-->|>>>|\s{4}\S)", regex.DOTALL
)


def is_complete(sentence: str) -> bool:
    """Whether this is a whole sentence of prose: with a mark at its end, and no half and no part of a table."""
    return _MARK_AT_END.search(sentence) is not None and _NO_PROSE.match(sentence) is None


def main(corpus: str, n: str, folder: str) -> None:
    """Draw one sentence that no other document has from each of N documents, and write the two files."""
    documents = read_documents(corpus)
    draw = random.Random(0)
    queries, qrels = [], []
    for name in draw.sample(sorted(documents), len(documents)):
        own = [one for one in sentences(documents[name]) if is_complete(one)]
        for sentence in draw.sample(own, len(own)):
            is_long_enough = WORDS[0] <= len(sentence.split()) <= WORDS[1]
            if is_long_enough and sum(sentence in text for text in documents.values()) == 1:
                queries.append({"_id": f"q{len(queries)}", "text": " ".join(sentence.split())})
                qrels.append({"query-id": queries[-1]["_id"], "corpus-id": name, "score": 1})
                break
        if len(queries) == int(n):
            break
    if not queries:
        raise SystemExit(
            f"no document has a sentence of {WORDS[0]} to {WORDS[1]} words that no other one has"
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    for stem, rows in {"queries": queries, "qrels": qrels}.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        Path(folder, f"{stem}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(queries)} of {n} sentences are in {folder}: edit them, then compare with them")


if __name__ == "__main__":
    main(*sys.argv[1:])
