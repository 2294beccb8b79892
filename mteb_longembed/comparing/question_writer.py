"""Questions for documents that have none: a language model writes one for a passage, so the passage is judged too."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import InputError, WriterError
from mteb_longembed.files import make_folder, write_file
from mteb_longembed.retrieval.passages import Passage, windows_of

if TYPE_CHECKING:
    from openai import OpenAI

#: Shorter passages, in characters, say too little to ask about.
MIN_CHARS = 200
#: How often a question that breaks a rule is asked again.
TRIES = 3
#: A question quotes if it shares more than this part of its rare words with its passage.
MOST_SHARED = 0.5
#: A word is rare if at most this part of all passages have it.
RARE = 0.02
#: The longest question, in characters.
MAX_CHARS = 300
#: Characters of English for one token, for the estimate of the cost.
_CHARS_A_TOKEN = 4
_ANSWER_TOKENS = 30
_WORD = re.compile(r"\w+")
_ABOUT_THE_TEXT = re.compile(
    r"\b(the|this|that|given|above|following)\s+"
    r"(passage|text|excerpt|paragraph|document)s?\b",
    re.IGNORECASE,
)
_PROMPT = """\
Somebody searches a collection of documents that they have not read. Write the one question that this person would type,
and that the passage below answers.

- Ask for what the passage says and other passages of the collection would not say.
- The person does not have the passage before them: use their own words, not those of the passage, and never mention
  a passage, text, document or author.
- Write in the language of the passage. Answer with the question alone, on one line.

Passage:
{passage}"""
_AGAIN = "That question {reason}. Write another one, by the same rules. Answer with the question alone, on one line."


@dataclass(frozen=True)
class Question:
    """A question and the passage that answers it.

    Args:
        document: the id of the document.
        start: first character of the passage.
        end: the character behind its last one.
        text: the question; empty if none kept the rules.
        reason: why the last question was dropped; empty if one was kept.
        tokens: what the writer read and wrote for it.
    """

    document: str
    start: int
    end: int
    text: str
    reason: str
    tokens: int


def draw_passages(documents: Mapping[str, str], n: int, seed: int = 0) -> list[tuple[str, Passage]]:
    """`n` passages over all documents and all places in them; fewer if there are not so many.

    Each round draws one more passage of every document, in a random order, so a short document counts like a long one.
    """
    draw = np.random.default_rng(seed)
    left = {}
    for key, text in documents.items():
        windows = [(start, end) for start, end in windows_of(text) if end - start >= MIN_CHARS]
        if windows:
            left[key] = [windows[i] for i in draw.permutation(len(windows))]
    drawn: list[tuple[str, Passage]] = []
    while left and len(drawn) < n:
        keys = list(left)
        for i in draw.permutation(len(keys)):
            drawn.append((keys[i], left[keys[i]].pop()))
        left = {key: windows for key, windows in left.items() if windows}
    return drawn[:n]


def expected_tokens(passages: Iterable[tuple[str, Passage]]) -> int:
    """About how many tokens a writer reads and writes for these passages, if each first question keeps the rules."""
    sizes = [len(_PROMPT) + end - start for _, (start, end) in passages]
    return sum(size // _CHARS_A_TOKEN + _ANSWER_TOKENS for size in sizes)


def rare_words(documents: Mapping[str, str]) -> set[str]:
    """The words that few passages of the documents have."""
    counts: Counter[str] = Counter()
    n_passages = 0
    for text in documents.values():
        for start, end in windows_of(text):
            counts.update(set(_words(text[start:end])))
            n_passages += 1
    most = max(RARE * n_passages, 1)
    return {word for word, count in counts.items() if count <= most}


def fault_of(question: str, passage: str, rare: set[str], earlier: set[str]) -> str:
    """Which rule a question breaks, as the end of "That question ..."; empty if it breaks none.

    >>> fault_of("What does the text say?", "A key.", set(), set())
    'speaks of the text, which the person who asks has not seen'
    >>> fault_of("Who keeps the lighthouse?", "Ada keeps the lighthouse.", {"ada", "lighthouse"}, set())
    'repeats the rare words of the passage'
    >>> fault_of("Who looks after the tower by the sea?", "Ada keeps the lighthouse.", {"ada", "lighthouse"}, set())
    ''
    """
    if not question:
        return "is empty"
    if len(question.splitlines()) > 1 or len(question) > MAX_CHARS:
        return f"is not one line of at most {MAX_CHARS} characters"
    if not _WORD.search(question):
        return "has no words"
    if re.match(r"(i'?m sorry|i am sorry|i can'?t|i cannot|as an ai)\b", question, re.IGNORECASE):
        return "is no question"
    if match := _ABOUT_THE_TEXT.search(question):
        return f"speaks of {match[0].lower()}, which the person who asks has not seen"
    of_question = [word for word in set(_words(question)) if word in rare]
    shared = [word for word in of_question if word in set(_words(passage))]
    if len(shared) > MOST_SHARED * len(of_question):
        return "repeats the rare words of the passage"
    if " ".join(_words(question)) in earlier:
        return "was written before"
    return ""


class QuestionWriter:
    """A language model behind an OpenAI-compatible endpoint.

    `OPENAI_BASE_URL` names the endpoint, so a server of one's own works too, and `OPENAI_API_KEY` its key.

    Args:
        model: the model's name at the endpoint.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self._client = _client()

    def write(self, key: str, place: Passage, passage: str, rare: set[str], earlier: set[str]) -> Question:
        """Ask for a question until it keeps the rules, at most `TRIES` times.

        Raises:
            WriterError: if the endpoint does not answer.
        """
        messages: list[dict[str, str]] = [{"role": "user", "content": _PROMPT.format(passage=passage)}]
        tokens = 0
        reason = ""
        for _ in range(TRIES):
            text, used = self._answer(messages)
            tokens += used
            question = text.strip().strip('"').strip()
            reason = fault_of(question, passage, rare, earlier)
            if not reason:
                return Question(key, *place, question, "", tokens)
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": _AGAIN.format(reason=reason)},
            ]
        return Question(key, *place, "", reason, tokens)

    def _answer(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, int]:
        """The model's answer, and how many tokens were read and written for it."""
        import openai

        sent: Any = list(messages)
        try:
            answer = self._client.chat.completions.create(model=self.model, messages=sent)
            text = answer.choices[0].message.content or ""
            used = answer.usage.total_tokens if answer.usage else 0
        except (openai.OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            reason = " ".join(str(error).split())[:160] or type(error).__name__
            raise WriterError(
                f"the writer {self.model} at {self._client.base_url} gave no answer ({reason}): check OPENAI_BASE_URL, "
                "OPENAI_API_KEY and the model's name; the same command goes on where it stopped."
            ) from error
        return text, used


def write_questions(
    documents: Mapping[str, str],
    n: int,
    writer: QuestionWriter,
    folder: Path,
    *,
    seed: int = 0,
    show: bool = True,
) -> list[Question]:
    """Write `corpus.jsonl`, `queries.jsonl` and `qrels.jsonl` into a folder. A run that was stopped goes on.

    Args:
        documents: id -> text.
        n: passages that are asked about. Fewer questions are kept, because some break the rules.
        writer: who writes.
        folder: where the files go.
        seed: of the passages that are drawn.
        show: show a bar.

    Returns:
        All questions, those that were dropped too.

    Raises:
        InputError: if no document has a passage of `MIN_CHARS` characters, or the folder has questions already, which
            somebody may have edited.
        WriterError: if the endpoint does not answer; what was written so far is kept.
    """
    if (folder / "queries.jsonl").exists():
        raise InputError(
            f"{folder} has questions already, which you may have edited: give them to compare, or remove the folder."
        )
    passages = draw_passages(documents, n, seed)
    if not passages:
        raise InputError(
            f"to write questions, a document needs a passage of at least {MIN_CHARS} characters, but none of the "
            f"{len(documents):,} documents has one: give --queries and --qrels."
        )
    make_folder("the folder of questions", folder)
    progress = folder / "progress.jsonl"
    known = {(q.document, q.start, q.end): q for q in _read(progress, writer.model)}
    rare = rare_words(documents)
    questions: list[Question] = []
    earlier: set[str] = set()
    with tqdm(passages, "Writing questions", unit=" questions", disable=not show) as bar:
        for key, place in bar:
            question = known.get((key, *place))
            if question is None:
                question = writer.write(key, place, documents[key][slice(*place)], rare, earlier)
                line = json.dumps({"writer": writer.model, **asdict(question)})
                with progress.open("a", encoding="utf-8") as file:
                    file.write(f"\n{line}")  # so a line that a kill cuts off spoils no other one
            earlier.add(" ".join(_words(question.text)))
            questions.append(question)
    _write_files(documents, questions, folder)
    return questions


def _write_files(documents: Mapping[str, str], questions: Sequence[Question], folder: Path) -> None:
    """The three files in the form that `compare` reads."""
    queries = []
    judgements = []
    for number, question in enumerate(question for question in questions if question.text):
        key = f"q{number}"
        queries.append({"_id": key, "text": question.text})
        place = {"start": question.start, "end": question.end}
        judgements.append({"query-id": key, "corpus-id": question.document, "score": 1, **place})
    corpus = [{"_id": key, "text": text} for key, text in documents.items()]
    # the queries come last: they say that the files are complete
    for name, rows in (("corpus", corpus), ("qrels", judgements), ("queries", queries)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        write_file(folder / f"{name}.jsonl", "".join(lines))


def summary(questions: Sequence[Question]) -> str:
    """One sentence: how many questions were kept, why others were dropped, and what they cost."""
    kept = sum(bool(question.text) for question in questions)
    reasons = Counter(question.reason for question in questions if question.reason)
    dropped = ", ".join(f"{n} because the question {reason}" for reason, n in reasons.most_common())
    tokens = sum(question.tokens for question in questions)
    middle = f"; dropped: {dropped}" if dropped else ""
    return f"{kept:,} of {len(questions):,} questions are kept{middle}. The writer read and wrote {tokens:,} tokens."


def _read(progress: Path, model: str) -> list[Question]:
    """What earlier runs with the same writer have written. A line that a kill cut off is left out."""
    if not progress.is_file():
        return []
    questions = []
    for line in filter(None, progress.read_text(encoding="utf-8").splitlines()):
        try:
            row = json.loads(line)
            if row.pop("writer") == model:
                questions.append(Question(**row))
        except (ValueError, TypeError, KeyError, AttributeError):
            print(f"mteb-longembed: a line of {progress} cannot be read and is left out.", file=sys.stderr)
    return questions


def _client() -> OpenAI:
    try:
        import openai
    except ImportError:
        raise InputError("--writer needs the package openai: pip install 'mteb-longembed[api]'.") from None
    key = os.environ.get("OPENAI_API_KEY")
    if key is None and not os.environ.get("OPENAI_BASE_URL"):
        raise InputError(
            "--writer needs an endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own."
        )
    # the client itself waits and asks again after errors 429 and 5xx
    return openai.OpenAI(api_key=key or "none", max_retries=5)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
