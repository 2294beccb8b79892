"""A page on which a person judges the documents that methods found: one file, no server, no network."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import pandas as pd

from mteb_longembed.data.check import read_corpus
from mteb_longembed.data.task import OwnData
from mteb_longembed.evaluation.evaluate import N_FIRST
from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import Json, make_folder, printable, write_file
from mteb_longembed.retrieval.analyzer import Analyzer, Language
from mteb_longembed.retrieval.passages import CUT, excerpt
from mteb_longembed.sentences import Span

from .candidates import FREE, Candidate
from .labels import short_names
from .template import render


class _Ranking(TypedDict):
    """The documents of a candidate for a query, the best first, and the passages of the first ones."""

    documents: Sequence[str]
    scores: Sequence[float]
    floor: float
    first: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]


PAGE = "judge.html"
#: Maximum bytes of a page, and the characters of each whole text that are tried until the page is small enough.
MOST_BYTES = 3_000_000
_TEXT_LENGTHS = (20_000, 10_000, 5_000, 2_500, 1_200, 600, 0)
#: Maximum passages of a document, characters of one and of a title; a shorter passage gets a margin.
_N_PASSAGES = 3
_PASSAGE = 240
_MARGIN = 60
_TITLE = 120
#: Maximum characters of a passage, or of a whole document, in which the best sentences are searched.
_SEARCHED = 4_000
#: Words of at most this many letters, such as `who`, are marked only where a question has no others.
_SHORT = 3


@dataclass(frozen=True, kw_only=True, repr=False)
class Judging:
    """Ranked methods that wait for judgements.

    Args:
        split: the queries, judged or not; None to have them typed on the page.
        candidates: the methods, in the order of the page.
        default: the id of the method that stays unless another one is clearly better.
        rankings: the rows of `ranked_rows` with passages, by candidate id.
        known: judgements that exist, which the page keeps and does not ask for: query id -> document id -> score.
    """

    split: Split | None = None
    candidates: Sequence[Candidate] = ()
    default: str = ""
    rankings: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    known: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def write(self, path: Path, command: str) -> None:
        """Write the page, of at most `MOST_BYTES` if its passages allow it. `command` is shown as the next one."""
        make_folder("the folder of the page", path.parent)
        data = {"passages": [], "texts": [], **self.data(), "command": command}
        for n_characters in _TEXT_LENGTHS:
            text = _page({**data, "texts": [_cut(whole, n_characters) for whole in data["texts"]]})
            if len(text.encode()) <= MOST_BYTES:
                break
        write_file(path, text)

    def data(self) -> Json:
        """Return the content of the page: questions, rankings and documents, which are referred to by index."""
        if self.split is None:
            return {"signature": self.signature, "questions": [], "documents": []}
        documents = self.split.documents
        language = Language.of(documents.language)
        index_of: dict[str, int] = defaultdict(lambda: len(index_of))
        orders = self.orders()
        clusters = self.split.task.clusters if isinstance(self.split.task, OwnData) else {}
        by_text = [self.rankings[one.id].set_index("query").to_dict("index") for one in self.candidates]
        queries = self.split.judged_queries
        questions, spans = [], []
        for query, text in queries.items():
            known = self.known.get(query, {})
            seen = {key: index_of[key] for key in [*orders[query], *known]}
            rows = [of_candidate[text] for of_candidate in by_text]
            spans.append(_spans(rows))
            ranks = []
            for one, row in zip(self.candidates, rows, strict=True):
                ranks.append(list(_groups(row, seen, one.tolerance, len(documents))))
            question = {
                "id": query,
                "text": printable(text),
                "cluster": clusters.get(query, ""),
                "terms": _marked(text, language),
                "pool": [index_of[key] for key in orders[query]],
                "ranks": ranks,
                "known": {index_of[key]: score for key, score in known.items()},
            }
            questions.append(question)
        texts = [documents.texts[documents.indices[key]] for key in index_of]
        passages: list[dict[int, list[str]]] = [{} for _ in questions]
        # by document, so that its sentences and terms are found once for all questions
        for key, index in index_of.items():
            for text, of_question, shown in zip(queries.values(), spans, passages, strict=True):
                if key in of_question:
                    shown[index] = _passages(text, texts[index], of_question[key], language)
        titles = _titles(self.split, index_of)
        labels = short_names(self.candidates)
        return {
            "signature": self.signature,
            "candidates": [labels[one.id] for one in self.candidates],
            "default": [one.id for one in self.candidates].index(self.default),
            "questions": questions,
            "documents": [{"id": key, "title": titles.get(key, "")} for key in index_of],
            "passages": passages,
            "texts": texts,
        }

    @property
    def signature(self) -> str:
        """A hash of documents and questions, under which a browser keeps judgements."""
        if self.split is None:
            return _hash()
        return _hash(self.split.corpus_digest, self.split.judged_queries)

    def orders(self) -> dict[str, list[str]]:
        """Return for each query the documents among the ten best of a method, in the order in which they are shown.

        A document has the sum of its reciprocal ranks over methods; variants of a method share one vote. Ties are in a
        random order, which is always the same.
        """
        families: dict[str, list[pd.Series]] = defaultdict(list)
        for candidate in self.candidates:
            families[_family(candidate)].append(self.rankings[candidate.id].set_index("query")["first"])
        orders = {}
        for query, text in self.split.judged_queries.items() if self.split else ():
            sums: dict[str, float] = defaultdict(float)
            for members in families.values():
                for ranked in members:
                    for rank, key in enumerate(ranked[text], start=1):
                        sums[key] += 1 / rank / len(members)
            # rounded, because the order of a sum must not break a tie
            keys = {key: (-round(total, 9), _hash(query, key)) for key, total in sums.items()}
            orders[query] = sorted(keys, key=keys.__getitem__)
        return orders

    def unjudged(self, judged: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
        """Return the mean number of each candidate's ten best documents without a judgement, over judged queries."""
        texts = self.split.judged_queries if self.split else {}
        counts = {}
        for candidate in self.candidates:
            ranked = self.rankings[candidate.id].set_index("query")["first"]
            missing = [len(set(ranked[texts[query]]) - known.keys()) for query, known in judged.items()]
            counts[candidate.id] = sum(missing) / max(len(missing), 1)
        return counts


def _titles(split: Split, wanted: Mapping[str, int]) -> dict[str, str]:
    """Return the titles of documents in files and tables; none of a stream, which cannot be read again."""
    if not isinstance(split.task, OwnData):
        return {}
    rows = read_corpus(split.task.corpus_source)
    return {one.id: printable(one.title[:_TITLE]) for one in rows if one.id in wanted}


def _spans(rows: Sequence[_Ranking]) -> dict[str, set[Span]]:
    """Return the passages that methods found for a question, by document."""
    spans: dict[str, set[Span]] = defaultdict(set)
    for row in rows:
        for key, start, end in zip(row["first"], row["starts"], row["ends"], strict=True):
            spans[key].add((int(start), int(end)))
    return spans


def _passages(question: str, whole: str, spans: set[Span], language: Language) -> list[str]:
    """Return excerpts of at most `_N_PASSAGES` passages of a document, preferring short ones."""
    shown: list[Span] = []
    for start, end in sorted(spans, key=lambda span: span[1] - span[0]):
        if not any(start < last and first < end for first, last in shown):
            shown.append((start, end))
    passages = []
    for start, end in sorted(shown[:_N_PASSAGES]):
        if end - start < _PASSAGE - 2 * _MARGIN:
            start = whole.rfind(" ", 0, max(start - _MARGIN, 0)) + 1
            end = min(end + _MARGIN, len(whole))
        part = whole[start : min(end, start + _SEARCHED)]
        passage = excerpt(part, question, _PASSAGE, language)
        if start and not passage.startswith(CUT):
            passage = f"{CUT} {passage}"
        passages.append(printable(passage))
    return list(dict.fromkeys(passages))


def _marked(question: str, language: Language) -> list[str]:
    """Return the words of a question to mark in texts; short ones only if there are no others."""
    forms = sorted({form for _, form in Analyzer(language).query_terms(question)})
    return [form for form in forms if len(form) > _SHORT] or forms


def _groups(
    row: _Ranking, seen: Mapping[str, int], tolerance: float, n_documents: int
) -> Iterator[list[int]]:
    """Yield the groups of tied documents that reach into the ten best: their number, and the seen ones among them."""
    n_above = sum(score > row["floor"] for score in row["scores"])
    scores, ids = list(row["scores"])[:n_above], list(row["documents"])[:n_above]
    room = tolerance * max(map(abs, scores[:N_FIRST]), default=0.0)
    start = 0
    while start < min(N_FIRST, len(ids)):
        end = start + 1
        while end < len(ids) and scores[end - 1] - scores[end] <= room:
            end += 1
        yield [end - start, *(seen[key] for key in ids[start:end] if key in seen)]
        start = end
    if start < N_FIRST and row["floor"] > -float("inf"):
        listed = set(row["documents"])
        yield [n_documents - len(listed), *(index for key, index in seen.items() if key not in listed)]


def _family(candidate: Candidate) -> str:
    """Return the name of a candidate without the settings that make no method of its own."""
    if candidate.kind == "bm25" or candidate.method is None:
        return candidate.kind
    return candidate.method.without(FREE[0]).label


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _cut(whole: str, n: int) -> list[str]:
    """Return at most `n` characters of a text, and a sentence if the rest is left out."""
    if len(whole) <= n:
        return [whole]
    return [whole[:n], f"Cut after {n:,} of {len(whole):,} characters; your file has the rest."]


def _page(data: Json) -> str:
    first = {key: value for key, value in data.items() if key not in ("passages", "texts")}
    # lines that the page parses when it shows them
    parts = [first, *data["passages"], *data["texts"]]
    lines = [json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in parts]
    packed = zlib.compress("\n".join(lines).encode(), 9)
    return render("judge.html.j2", "judge.js", data=base64.b64encode(packed).decode())
