"""Questions for your documents by a language model: corpus.jsonl, queries.jsonl and qrels.jsonl in a folder.

OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=x python write_questions.py docs.jsonl MODEL 50 FOLDER
"""

import json
import random
import sys
from pathlib import Path
from urllib.parse import urlsplit

from openai import OpenAI, OpenAIError

from mteb_longembed.data.check import read_documents

PASSAGE = 1200  # characters
ASK = """Write one question that only this passage answers, in its language and in other words than it has. Answer
with a JSON object with one field: {"question": "..."}

"""
REFUSALS = ("i cannot", "i can't", "i'm sorry", "i am sorry", "as an ai")


def question_in(answer: str) -> str | None:
    """The question of an answer; None if it is no question, is cut off or refuses."""
    text = answer.rpartition("</think>")[2]
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])["question"]
        question = " ".join(found.split())
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if question.lower().startswith(REFUSALS) or not question.endswith(("?", "？", "؟")):
        return None
    return question


def ask(client: OpenAI, model: str, passage: str) -> str | None:
    """One question for a passage; None if the answer has none."""
    messages = [{"role": "user", "content": ASK + passage}]
    choice = client.chat.completions.create(model=model, messages=messages).choices[0]
    content = choice.message.content or ""
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(part.get("text") or "" for part in content)
    if choice.finish_reason == "length":
        return None
    return question_in(content)


def main(corpus: str, model: str, n: str, folder: str) -> None:
    """Draw passages of different documents, ask for a question each, and write the three files."""
    client = OpenAI()
    address = urlsplit(str(client.base_url))  # a user and a password in it are never shown
    print(f"asking {address.hostname}{address.path}")
    documents = read_documents(corpus)
    draw = random.Random(0)
    queries, qrels, why = [], [], "no answer was a question"
    for name in draw.sample(sorted(documents), min(int(n), len(documents))):
        start = draw.randrange(max(len(documents[name]) - PASSAGE, 0) + 1)
        passage = documents[name][start : start + PASSAGE]
        try:
            question = ask(client, model, passage)
        except OpenAIError as error:  # the others go on; "Connection error." hides its cause
            why = str(error.__cause__ or error)
            continue
        if question is not None and passage.strip():
            queries.append({"_id": f"q{len(queries)}", "text": question})
            pair = {"query-id": queries[-1]["_id"], "corpus-id": name, "score": 1}
            qrels.append(pair)
    if not queries:
        raise SystemExit(f"no question was kept: {why}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    rows = [{"_id": name, "text": text} for name, text in documents.items()]
    for stem, lines in {"corpus": rows, "queries": queries, "qrels": qrels}.items():
        Path(folder, f"{stem}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{len(queries)} of {n} questions are in {folder}: read and edit them, then compare with them")


if __name__ == "__main__":
    main(*sys.argv[1:])
