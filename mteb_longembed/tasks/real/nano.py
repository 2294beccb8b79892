"""NanoLongEmbed: the six tasks with fewer queries, so that a comparison of strategies takes minutes on a GPU.

The data set is `hakari-bench/NanoLongEmbed` on the hub: configurations `corpus` {_id, text}, `queries` {_id, text} and
`qrels` {query-id, corpus-id}, and in each a split for every task.

Source: HAKARI-Bench (https://arxiv.org/abs/2606.22778), whose own code reads it in this way.
"""

from datasets import Dataset, load_dataset
from mteb.tasks.retrieval import eng

from mteb_longembed.errors import HubError
from mteb_longembed.hub import translate_hub_errors
from mteb_longembed.tasks.real.hub_retrieval import HubRetrieval, Size, metadata_of

REPOSITORY = "hakari-bench/NanoLongEmbed"
#: No commit is pinned, so `Size` checks that the data are the published ones.
REVISION = "main"


class NanoRetrieval(HubRetrieval):
    """A task of `hakari-bench/NanoLongEmbed`."""

    def read(self, split: str) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
        """Read documents and queries by id, and the judgements."""
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


def _task(theirs: str, split: str, size: Size, what: str) -> type[NanoRetrieval]:
    """Create a task with mteb's metadata of the same documents, updated by ours."""
    metadata = metadata_of(
        vars(eng)[theirs],
        name=f"NanoLongEmbed{split.removeprefix('Nano')}",
        description=f"{size.n_documents} {what}, {size.n_queries} queries.",
        reference="https://arxiv.org/abs/2606.22778",
        dataset={"path": REPOSITORY, "revision": REVISION},
        eval_splits=[split],
    )
    return type(metadata.name, (NanoRetrieval,), {"metadata": metadata, "size": size, "__module__": __name__})


#: In the order of the published splits.
NANO_TASKS = (
    _task(
        "LEMBNarrativeQARetrieval",
        "NanoNarrativeQA",
        Size(355, 326752.9972, 200, 49.315),
        "books and scripts",
    ),
    _task("LEMBSummScreenFDRetrieval", "NanoSummScreenFD", Size(336, 30854.3273, 200, 600.665), "episodes"),
    _task("LEMBQMSumRetrieval", "NanoQMSum", Size(197, 53335.8173, 200, 446.325), "meetings"),
    _task("LEMBWikimQARetrieval", "Nano2WikiMultihopQA", Size(300, 37445.6033, 200, 67.515), "article sets"),
    _task("LEMBPasskeyRetrieval", "NanoPasskey", Size(800, 28956.68, 100, 37.8), "texts of eight lengths"),
    _task("LEMBNeedleRetrieval", "NanoNeedle", Size(800, 35246.1175, 98, 58.9898), "texts of eight lengths"),
)
