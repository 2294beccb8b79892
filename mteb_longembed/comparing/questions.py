"""Which questions failed: what came first in the place of a document that answers."""

from collections.abc import Sequence

import pandas as pd

from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import printable

#: So many questions are shown, those with the lowest scores.
SHOWN = 20
#: Characters of a text that are shown.
_BEGINNING = 80


def failed_questions(scores: pd.DataFrame, candidate: str, splits: Sequence[Split]) -> pd.DataFrame:
    """The questions of a candidate for which no right document came first, the lowest scores first.

    Columns are task, split, query and score (in percent), `text` of the query, `first` and `first_text` (the document
    that came first; empty if there was none), `right` and `right_text` (the best judged one). Texts are beginnings.

    Args:
        scores: of all candidates, as `evaluate` makes them.
        candidate: its id.
        splits: what they ran on.
    """
    by_label = {split.label: split for split in splits}
    rows = []
    for row in scores[scores["candidate"] == candidate].sort_values("score", kind="stable").itertuples():
        split = by_label[row.task, row.split]
        judged = split.judged[row.query]
        if judged.get(row.first, 0) > 0:
            continue
        right = max(judged, key=judged.__getitem__)
        found = {"task": row.task, "split": row.split, "query": row.query, "score": 100 * row.score}
        found["text"] = _beginning(split.queries[row.query])
        for name, document in (("first", row.first), ("right", right)):
            found |= {name: document, f"{name}_text": ""}
            if document in split.documents.numbers:
                found[f"{name}_text"] = _beginning(split.documents.texts[split.documents.numbers[document]])
        rows.append(found)
    columns = ["task", "split", "query", "score", "text", "first", "first_text", "right", "right_text"]
    return pd.DataFrame(rows, columns=columns)


def _beginning(text: str) -> str:
    """The first words of a text, on one line."""
    line = printable(" ".join(text[: 4 * _BEGINNING].split()))
    if len(line) <= _BEGINNING:
        return line
    return f"{line[:_BEGINNING].rpartition(' ')[0] or line[:_BEGINNING]} ..."
