"""What the numbers of a comparison cannot see: facts about data and models that would mislead if nobody said them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.table import percent
from mteb_longembed.evaluation.scoring import texts_of

from .ranking import Row

#: A tokenizer with at least this share of unknown tokens is named.
UNKNOWN = 0.05


def short_documents(rows: Sequence[Row]) -> list[str]:
    """That all documents fit into the window of a base, so that nothing can be gained by a longer one.

    Args:
        rows: the candidates. Only bases with a trained length count.
    """
    sentences = []
    for row in rows:
        trained_len = row.candidate.trained_len
        if row.candidate.is_base and trained_len is not None and 0 < row.cost.longest <= trained_len:
            sentences.append(
                f"Your documents are short: the longest has {row.cost.longest:,} tokens, and {row.label} reads "
                f"{trained_len:,}. A longer window changes nothing, so ways that only extend it are all equal."
            )
    return sentences


def identical_queries(tasks: Sequence[AbsTaskRetrieval]) -> list[str]:
    """That queries are documents too, with the same id and text: each then finds itself first.

    In one public data set all 30 queries are such: nDCG@1 was 0.0 for every model. Tasks that already leave these
    documents out are not looked at.

    Args:
        tasks: loaded tasks.
    """
    n_identical = 0
    n_queries = 0
    for task in tasks:
        if getattr(task, "ignore_identical_ids", False):
            continue
        for subset in task.hf_subsets:
            for split in task.eval_splits:
                data = task.dataset[subset][split]
                asked = dict(zip(data["queries"]["id"], data["queries"]["text"], strict=True))
                judged = [query for query in asked if data["relevant_docs"].get(query)]
                n_queries += len(judged)
                wanted = set(judged) & set(data["corpus"]["id"])
                if not wanted:
                    continue
                rows = [index for index, name in enumerate(data["corpus"]["id"]) if name in wanted]
                corpus = data["corpus"].select(rows)
                texts: list[str] = []
                for batch in texts_of(corpus):
                    texts += batch
                for name, text in zip(corpus["id"], texts, strict=True):
                    n_identical += text == str(asked[name]).strip()
    if not n_identical:
        return []
    return [
        f"{n_identical:,} of {n_queries:,} queries are documents too, with the same id and text, so that each finds "
        "itself first: --ignore-identical-ids leaves that document out (BEIR's rule)."
    ]


def repeated_documents(tasks: Sequence[AbsTaskRetrieval]) -> list[str]:
    """That documents have the text of another one: no ranking can tell them apart.

    Args:
        tasks: loaded tasks. Documents without text do not count.
    """
    n_repeated = 0
    n_documents = 0
    for task in tasks:
        for subset in task.hf_subsets:
            for split in task.eval_splits:
                counts: Counter[str] = Counter()
                for texts in texts_of(task.dataset[subset][split]["corpus"]):
                    counts.update(texts)
                n_documents += counts.total()
                n_repeated += sum(n for text, n in counts.items() if n > 1 and text)
    if not n_repeated:
        return []
    return [f"{n_repeated:,} of {n_documents:,} documents have the same text as another one."]


def ties(scores: pd.DataFrame, rows: Sequence[Row]) -> list[str]:
    """That equal scores of documents decided queries, with the candidate for which they decided most.

    Args:
        scores: one row for each query of each candidate, see `evaluations.COLUMNS`.
        rows: the candidates.
    """
    n_tied = scores.groupby("candidate")["is_tied"].sum()
    row = max(rows, key=lambda row: n_tied[row.name])
    if not n_tied[row.name]:
        return []
    n_queries = int((scores["candidate"] == row.name).sum())
    return [
        f"{row.label} gives documents equal scores where that decides ({n_tied[row.name]:,} of {n_queries:,} queries): "
        "they have equal vectors or words, and each such query counts with its mean over all orders of them."
    ]


def unknown_tokens(rows: Sequence[Row]) -> list[str]:
    """That a tokenizer does not know the documents' words. Candidates of one base have one tokenizer.

    Args:
        rows: the candidates. Shares below `UNKNOWN` are not said: rare signs are unknown to many tokenizers.
    """
    shares: dict[str, float] = {}
    for row in rows:
        if row.candidate.base:
            base = Path(row.candidate.base).name
            shares[base] = max(shares.get(base, 0.0), row.cost.share_unknown)
    return [
        f"The tokenizer of {base} does not know {percent(share)} of the documents' tokens: they count as not read."
        for base, share in shares.items()
        if share >= UNKNOWN
    ]


def blind_spots(
    scores: pd.DataFrame,
    rows: Sequence[Row],
    tasks: Sequence[AbsTaskRetrieval],
    *,
    ignore_identical_ids: bool = False,
) -> list[str]:
    """One sentence for each thing that the numbers cannot see, each of them once.

    Args:
        scores: one row for each query of each candidate, see `evaluations.COLUMNS`.
        rows: the candidates.
        tasks: loaded tasks.
        ignore_identical_ids: whether documents with the id of the query do not count already.
    """
    sentences = short_documents(rows)
    if not ignore_identical_ids:
        sentences += identical_queries(tasks)
    return [*sentences, *repeated_documents(tasks), *ties(scores, rows), *unknown_tokens(rows)]
