"""Look at a user's files before a model is loaded: nothing here needs torch or mteb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mteb_longembed.data import check
from mteb_longembed.data.table import ENDINGS, TREC, Source, ending_of
from mteb_longembed.errors import DataError
from mteb_longembed.sentences import CHARS_PER_TOKEN
from mteb_longembed.values import check_language_form

if TYPE_CHECKING:
    from mteb_longembed.data.sources import Data

#: A larger unread share of the text is reported.
_MOST_CUT = 0.1


@dataclass(frozen=True)
class Survey:
    """What a corpus holds, counted before anything is encoded.

    Args:
        lengths: characters of each document, `[documents]`.
        n_bytes: bytes of all texts in UTF-8.
    """

    lengths: np.ndarray
    n_bytes: int

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def tokens(self) -> np.ndarray:
        """The estimated tokens of each document, special ones included, `[documents]`."""
        return (self.lengths / CHARS_PER_TOKEN).astype(int) + 2


def survey(corpus: Source) -> Survey:
    """Read a corpus once, and count it.

    Raises:
        DataError: if it is missing, has no document, or breaks a rule of `check`.
    """
    lengths = []
    n_bytes = 0
    for _, text in check.read_texts(corpus):
        lengths.append(len(text))
        n_bytes += len(text.encode("utf-8", "surrogatepass"))
    return Survey(np.array(lengths, int), n_bytes)


def unread(tokens: np.ndarray, most: float | None) -> str:
    """Return a sentence on the share of the text that a model does not read; empty if that is at most a tenth.

    Args:
        tokens: the estimated tokens of each document, `[documents]`.
        most: how many tokens of a document the model reads; None for all.
    """
    if most is None:
        return ""
    share = (tokens - most).clip(min=0).sum() / max(tokens.sum(), 1)
    if share <= _MOST_CUT:
        return ""
    return f"about {100 * share:.0f} % of the text is not read; a name with +pcw@LENGTH reads all (docs/search.md)."


def look_at(data: Data) -> None:
    """Check all files of a comparison, and that their ids fit together. mteb's tasks are not looked at.

    Raises:
        DataError: if a file is missing or breaks a rule, or an id is not known.
        InputError: if the language is no code.
    """
    if data.language is not None:
        check_language_form(data.language)
    corpus, queries = data.corpus, data.queries
    qrels: Mapping[str, Source] = {}
    if data.folder is not None:
        corpus, queries, qrels = beir_files(data.folder, data.eval_splits or ["test"])
    elif data.qrels is not None:
        qrels = {"test": data.qrels}
    if corpus is None:
        return
    for source in (corpus, queries, *qrels.values()):
        if source is not None:
            check_exists(source)
    texts: Mapping[str, str] = {}
    if queries is not None:
        texts = {query.id: query.text for query in check.read_query_rows(queries, by=data.by)}
    rows = [check.read_judgement_rows(source) for source in qrels.values()]
    documents = dict.fromkeys(document.id for document in check.read_corpus(corpus))
    for of_split in rows:
        check.judged_scores(of_split, texts, documents)


def check_exists(source: Source) -> None:
    """Raise DataError if a source is the path of nothing."""
    if isinstance(source, (str, Path)) and not Path(source).exists():
        raise DataError(f"{source}: expected a regular file or a folder, found none: check the path.")


def beir_files(folder: str | Path, splits: Sequence[str]) -> tuple[Path, Path, Mapping[str, Path]]:
    """Return the files of a folder in BEIR's layout: documents, queries, and judgements by split.

    Raises:
        DataError: if one of them is missing, or there are two.
    """
    root = Path(folder).absolute()
    if not root.is_dir():
        raise DataError(f"{folder}: expected a folder in BEIR's layout, found none: check the path.")
    qrels = {}
    for split in splits:
        stems = [f"qrels/{split}"]
        if len(splits) == 1:
            stems.append("qrels")
        qrels[split] = _find(root, stems, (*ENDINGS, *TREC))
    return _find(root, ["corpus"]), _find(root, ["queries"]), qrels


def _find(root: Path, stems: Sequence[str], endings: Sequence[str] = ENDINGS) -> Path:
    """Find the only file whose path without extension is one of these."""
    matching = []
    for stem in stems:
        for path in sorted(root.glob(f"{stem}*")):
            is_named_so = path.name.partition(".")[0] == Path(stem).name
            if is_named_so and ending_of(path) in endings and path.is_file():
                matching.append(path)
    if len(matching) != 1:
        names = " and ".join(str(path.relative_to(root)) for path in matching)
        raise DataError(
            f"{root}: expected one file {stems[0]} ({', '.join(ENDINGS)}), found {names or 'none'}."
        )
    return matching[0]
