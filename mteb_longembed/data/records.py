"""Pydantic models of the rows of a user's data: a document, a query, a judgement."""

import math
import re
from numbers import Integral
from typing import Annotated, Any, SupportsFloat

import pandas as pd
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

#: The largest score. trec_eval keeps a counter for each score up to the largest one.
MOST = 10_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _id(value: object) -> str:
    name = ""
    if not isinstance(value, bool) and isinstance(value, (str, Integral)):
        name = str(value)
    if not name.strip() or _CONTROL.search(name):
        raise ValueError("a text or an integer, not empty and without control characters")
    return name


def _text(value: object) -> str:
    # JSON can contain lone surrogates, but files and tables cannot
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise ValueError("a text")
    return value


def _optional_text(value: object) -> str:
    return "" if is_missing(value) else _text(value)


def _label(value: object) -> str:
    return "" if is_missing(value) else str(value).strip()


def _score(value: object) -> int:
    score = _whole_number(value)
    if score is None or score > MOST:
        raise ValueError(f"an integer of at most {MOST:,}")
    return max(score, 0)


def _whole_number(value: object) -> int | None:
    """Parse an integer, such as 1, 1.0 or "1.0"; None for anything else."""
    number = parse_number(value)
    if isinstance(value, bool) or not number.is_integer():
        return None
    return int(number)


def parse_number(value: object) -> float:
    """Parse a value as a Python float; nan if it is not a number."""
    if not isinstance(value, (str, SupportsFloat)):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_missing(value: object) -> bool:
    """Return whether a value is a missing value of a table."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def brief(value: object) -> str:
    """Return the beginning of a value, for a message."""
    if is_missing(value):
        return "none"
    return ascii(value)[:60]


Id = Annotated[str, BeforeValidator(_id)]
Text = Annotated[str, BeforeValidator(_text)]


def _column(*names: str) -> Any:
    """Declare a required field, read from the first of these columns that a row has."""
    return Field(validation_alias=AliasChoices(*names))


class Record(BaseModel):
    """A row. Columns are named as in BEIR or in the LongEmbed data set, or plainly; other columns are ignored."""

    model_config = ConfigDict(frozen=True, loc_by_alias=False)


class Document(Record):
    """A document of a corpus; the title may be empty."""

    text: Text = _column("text", "contents")
    id: Id = _column("_id", "id", "doc_id", "docid")
    title: Annotated[str, BeforeValidator(_optional_text)] = ""

    @property
    def joined(self) -> str:
        """Title and text, as models read them."""
        return f"{self.title} {self.text}".strip()


class Query(Record):
    """A query, its cluster, such as a session, and its kind; both empty without one."""

    text: Text = _column("text", "query", "query_text")
    id: Id = _column("_id", "id", "qid", "query_id", "q_id")
    cluster: Annotated[str, BeforeValidator(_label)] = ""
    kind: Annotated[str, BeforeValidator(_label)] = ""


class Judgement(Record):
    """The relevance of a document for a query. Scores below 0 become 0, not relevant."""

    query_id: Id = _column("query-id", "query_id", "qid", "q_id")
    document_id: Id = _column("corpus-id", "corpus_id", "doc_id", "docid")
    score: Annotated[int, BeforeValidator(_score)] = _column("score", "relevance", "rel", "label")


def names_of(record: type[Record], field: str) -> list[str]:
    """Return the column names of a field."""
    alias = record.model_fields[field].validation_alias
    assert isinstance(alias, AliasChoices)
    return list(map(str, alias.choices))


#: The column names of a judgement's two ids.
OF_JUDGEMENTS = {*names_of(Judgement, "query_id"), *names_of(Judgement, "document_id")}
