"""NanoLongEmbed: the six tasks with fewer queries, so that a comparison of strategies takes minutes on a GPU.

The data set is `hakari-bench/NanoLongEmbed` on the hub: configurations `corpus` {_id, text}, `queries` {_id, text} and
`qrels` {query-id, corpus-id}, and in each a split for every task.

Source: HAKARI-Bench (https://arxiv.org/abs/2606.22778), whose own code reads it so.
"""

from datasets import Dataset, load_dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.tasks.retrieval.eng import (
    LEMBNarrativeQARetrieval,
    LEMBNeedleRetrieval,
    LEMBPasskeyRetrieval,
    LEMBQMSumRetrieval,
    LEMBSummScreenFDRetrieval,
    LEMBWikimQARetrieval,
)

from mteb_longembed.errors import HubError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.tasks.real.hub_retrieval import HubRetrieval, Size, metadata_of
from mteb_longembed.tasks.task_metadata import LongEmbedMetadata

REPOSITORY = "hakari-bench/NanoLongEmbed"
#: We know no commit of it, so `Size` tells whether the data are those that were published.
REVISION = "main"


def _metadata(theirs: type[AbsTaskRetrieval], split: str, description: str) -> LongEmbedMetadata:
    """mteb's metadata of the same documents with ours instead."""
    return metadata_of(
        theirs,
        name=f"NanoLongEmbed{split.removeprefix('Nano')}",
        description=description,
        reference="https://arxiv.org/abs/2606.22778",
        dataset={"path": REPOSITORY, "revision": REVISION},
        eval_splits=[split],
    )


class NanoRetrieval(HubRetrieval):
    """A task of `hakari-bench/NanoLongEmbed`."""

    def read(self, split: str) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
        """Documents and queries by their ids, and the judgements."""
        corpus, queries, qrels = (_rows(config, split) for config in ("corpus", "queries", "qrels"))
        judged: dict[str, dict[str, int]] = {}
        for query, document in zip(qrels["query-id"], qrels["corpus-id"], strict=True):
            judged.setdefault(query, {})[document] = 1
        return _texts(corpus), _texts(queries), judged


def _rows(config: str, split: str) -> Dataset:
    try:
        with translate_hub_errors():
            return load_dataset(REPOSITORY, config, split=split, revision=REVISION)
    except (OSError, ValueError) as error:  # no such repository, configuration or split; no connection
        first = str(error).partition("\n")[0].rstrip(". ")
        raise HubError(
            f"{config} of the data set {REPOSITORY} cannot be loaded ({first}): check the connection; what is in the "
            "cache (HF_HOME) works offline."
        ) from error


def _texts(rows: Dataset) -> dict[str, str]:
    return dict(zip(rows["_id"], rows["text"], strict=True))


class NanoLongEmbedNarrativeQA(NanoRetrieval):
    """200 of NarrativeQA's questions about a whole book or film script."""

    metadata = _metadata(
        LEMBNarrativeQARetrieval, "NanoNarrativeQA", "355 books and film scripts, 200 questions."
    )
    size = Size(355, 326752.9972, 200, 49.315)


class NanoLongEmbedSummScreenFD(NanoRetrieval):
    """200 of SummScreenFD's summaries of television episodes."""

    metadata = _metadata(
        LEMBSummScreenFDRetrieval, "NanoSummScreenFD", "336 transcripts of episodes, 200 summaries."
    )
    size = Size(336, 30854.3273, 200, 600.665)


class NanoLongEmbedQMSum(NanoRetrieval):
    """200 of QMSum's summaries of what was said in a meeting."""

    metadata = _metadata(LEMBQMSumRetrieval, "NanoQMSum", "197 transcripts of meetings, 200 summaries.")
    size = Size(197, 53335.8173, 200, 446.325)


class NanoLongEmbed2WikiMultihopQA(NanoRetrieval):
    """200 of 2WikiMultihopQA's questions that need two articles."""

    metadata = _metadata(
        LEMBWikimQARetrieval, "Nano2WikiMultihopQA", "300 collections of articles, 200 questions."
    )
    size = Size(300, 37445.6033, 200, 67.515)


class NanoLongEmbedPasskey(NanoRetrieval):
    """The published passkeys of all eight lengths together."""

    metadata = _metadata(LEMBPasskeyRetrieval, "NanoPasskey", "800 documents of eight lengths, 100 queries.")
    size = Size(800, 28956.68, 100, 37.8)


class NanoLongEmbedNeedle(NanoRetrieval):
    """The published needles of all eight lengths together."""

    metadata = _metadata(LEMBNeedleRetrieval, "NanoNeedle", "800 documents of eight lengths, 98 queries.")
    size = Size(800, 35246.1175, 98, 58.9898)


#: In the order of the published splits.
NANO_TASKS = (
    NanoLongEmbedNarrativeQA,
    NanoLongEmbedSummScreenFD,
    NanoLongEmbedQMSum,
    NanoLongEmbed2WikiMultihopQA,
    NanoLongEmbedPasskey,
    NanoLongEmbedNeedle,
)
